#!/bin/sh
# The conversation on a terminal, through a pseudo-terminal.
exec python3 tests/repl_check.py
