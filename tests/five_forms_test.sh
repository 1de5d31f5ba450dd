#!/bin/sh
# One model in five storage forms through the commands that people run.
exec python3 tests/five_forms_check.py
