#!/usr/bin/env bash
# slurm.conf: Epilog=/etc/slurm/corun-epilog.sh. Ends the services of prolog.sh that no other job of the user needs.
set -u
job=${SLURM_JOB_ID:-}
base=${CORUN_FOLDER:-/run/corun}
[ -n "$job" ] && [ -n "${SLURM_JOB_UID:-}" ] && [ -d "$base/$SLURM_JOB_UID" ] || exit 0
exec 9>"$base/lock"
flock 9
for jobs in "$base/$SLURM_JOB_UID"/*.jobs; do
  [ -e "$jobs/$job" ] || continue
  rm -f "$jobs/$job"
  [ -z "$(ls "$jobs")" ] || continue
  at=${jobs%.jobs}
  if pid=$(cat "$at.pid" 2>/dev/null) && tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "--at $at"; then
    kill "$pid" # its MPS server ends with it
  fi
  rm -f "$at.pid"
done
exit 0
