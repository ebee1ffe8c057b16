#!/usr/bin/env bash
# slurm.conf: Prolog=/etc/slurm/corun-prolog.sh. Starts a service for each GPU of a job whose user has none there yet; jobs then say
#   sim run --at /run/corun/$UID/$GPU -- python train.py      with GPU as `scontrol show job -d` has it (IDX)
# A job whose service does not start runs all the same: `sim run` in it ends with exit code 2. So a node is never drained.
# For jobs that share a GPU (gres/shard), with ConstrainDevices=yes in cgroup.conf. No Slurm ran this: the test plays it.
set -u
base=${CORUN_FOLDER:-/run/corun}
log() { echo "corun: job ${SLURM_JOB_ID:-?}: $*" >&2; }

there() { "${as_user[@]}" sim top --at "$1" >/dev/null 2>&1; }
serve() { # GPU FOLDER: is there a service when it returns?
  local gpu=$1 at=$2 uuid
  there "$at" && return 0
  uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader -i "$gpu") || return 1
  install -d -m 0700 -o "$SLURM_JOB_UID" "$at" || return 1
  # In a session of its own, and with none of this script's descriptors: slurmd waits for both.
  CUDA_VISIBLE_DEVICES=$uuid "${as_user[@]}" setsid sim serve --policy="${CORUN_POLICY:-wait:beside=on}" --at "$at" >/dev/null 2>"$at.log" </dev/null 9>&- &
  echo $! >"$at.pid"
  for _ in $(seq 100); do
    there "$at" && return 0
    kill -0 "$(cat "$at.pid")" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

[ -n "${SLURM_JOB_GPUS:-}" ] && [ -n "${SLURM_JOB_UID:-}" ] && [ "$SLURM_JOB_UID" != 0 ] || exit 0
as_user=(setpriv "--reuid=$SLURM_JOB_UID" "--regid=$(id -g "$SLURM_JOB_UID")" --init-groups --) # no function: $! is to be the service's
install -d -m 0755 "$base" "$base/$SLURM_JOB_UID" || exit 0
exec 9>"$base/lock"
flock 9 # another job's prolog or epilog
for gpu in ${SLURM_JOB_GPUS//,/ }; do
  at=$base/$SLURM_JOB_UID/$gpu
  install -d "$at.jobs" && touch "$at.jobs/$SLURM_JOB_ID"
  serve "$gpu" "$at" || log "no service for GPU $gpu: $(tail -n 1 "$at.log" 2>/dev/null)"
done
exit 0
