#!/bin/bash
# A run of drbqo on Slurm: one Ray node on each host, the run itself on the first.
#
#   sbatch --nodes=4 deploy/slurm.sh --objective my_objective:score --space space.yaml \
#       --folds 10 --evaluations 60 --radius 1 --storage runs/first
#
# All arguments go to `drbqo run`. `python`, `ray` and `drbqo` must be on PATH of every host, and
# the directory you submit from must be on a file system that all hosts share. To go on with a run
# that was cut off, set DRBQO_COMMAND=resume and pass its directory:
#
#   DRBQO_COMMAND=resume sbatch --nodes=4 deploy/slurm.sh runs/first
#
#SBATCH --job-name=drbqo
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=B:INT@120

set -euo pipefail

# A token of its own for each job, readable by you alone; the hosts find it on the shared disk.
umask 077
private=$(mktemp -d "$PWD/.drbqo-$SLURM_JOB_ID-XXXXXX")
python -c 'import secrets; print(secrets.token_hex(32), end="")' > "$private/token"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$private/token" RAY_USAGE_STATS_ENABLED=0

# Jobs that share a host must share neither a port nor a directory.
port=$((20000 + SLURM_JOB_ID % 20000))
address=$(hostname --ip-address | awk '{print $1}'):$port

ray_nodes=()
clean_up() {
    kill "${ray_nodes[@]}" 2> /dev/null || true
    wait "${ray_nodes[@]}" 2> /dev/null || true
    rm -rf "$private" "/tmp/ray-$SLURM_JOB_ID"
}
trap clean_up EXIT

ray start --head --block --node-ip-address="${address%:*}" --port="$port" \
    --num-cpus="$SLURM_CPUS_PER_TASK" --dashboard-host=127.0.0.1 \
    --temp-dir="/tmp/ray-$SLURM_JOB_ID" > "$private/head.log" 2>&1 &
ray_nodes+=($!)
until ray health-check --address "$address" > /dev/null 2>&1; do
    kill -0 "${ray_nodes[0]}" || { cat "$private/head.log" >&2; exit 1; }
    sleep 1
done

others=$((SLURM_JOB_NUM_NODES - 1))
if [ "$others" -gt 0 ]; then
    srun --nodes="$others" --ntasks="$others" --exclude="$(hostname)" \
        ray start --block --address="$address" --num-cpus="$SLURM_CPUS_PER_TASK" &
    ray_nodes+=($!)
fi

# Slurm's warning two minutes before the end stops the run as Ctrl-C would: it saves and reports.
# The run follows hosts that join later, so there is no need to wait for all of them.
drbqo "${DRBQO_COMMAND:-run}" --address "$address" "$@" &
run=$!
trap 'kill -INT "$run" 2> /dev/null || true' INT TERM
status=0
wait "$run" || status=$?
while kill -0 "$run" 2> /dev/null; do
    status=0
    wait "$run" || status=$?
done
exit "$status"
