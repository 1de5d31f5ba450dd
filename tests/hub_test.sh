#!/bin/sh
# The model store against a hub of our own: layout, resume, faults, hostile names, two at once.
exec python3 tests/hub_check.py
