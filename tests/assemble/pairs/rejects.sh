#!/bin/sh
# An assembler that rejects every kernel, for the test of what is printed then.
case "$1" in
  --version) echo 'Cuda compilation tools, release 13.5, V13.5.0'; exit 0 ;;
  --list-versions) echo 13.1 13.2 13.3 13.4; exit 0 ;;
esac
echo '"program":7:1: error: not today' >&2
exit 1
