#!/bin/sh
# The command line as a user or a script meets it: forms, exit statuses, one-line errors, JSON shapes.
exec python3 tests/cli_check.py
