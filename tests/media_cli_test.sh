#!/bin/sh
# Images through the command line: --input and --output of score, --input of generate.
exec python3 tests/media_cli_check.py
