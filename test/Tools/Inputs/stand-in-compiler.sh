#!/bin/sh
# Stands in for kimi-compile: says how it was called, and writes what is no module.
echo "stand-in: $*"
test -z "$STAND_IN_STATUS" || exit "$STAND_IN_STATUS"
while test "$1" != -o; do shift; done
echo "not a module" > "$2"
