#!/usr/bin/env bash
# Writes the golden results anew, after a change that is meant to change them.  Read the difference before committing it.
set -eu
cd "$(dirname "$0")/../.."
for policy in fcfs priority timeslice tpc-mask greedy; do
  spec=$policy
  [ "$policy" = tpc-mask ] && spec=tpc-mask:split=even
  build/bin/sim --json --duration=5ms --policy="$spec" traces/h200/examples/six-clients.json > "tests/golden/six-clients.$policy.json"
done
