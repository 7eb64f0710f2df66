#!/bin/bash
# One executor on each node of a Slurm job, the coordinator on the first: sbatch --nodes 3 configs/lan/slurm-job.sh
# Set MODEL, DATA and RUN (on a file system that the first node sees), and ZEROLOCK to the program on all nodes; PORT, if
# 7400 is not free. Words behind the script's name are the coordinator's: sbatch ... slurm-job.sh --windows 100
#SBATCH --job-name=zerolock
#SBATCH --ntasks-per-node=1
set -euo pipefail
: "${MODEL:?the model}" "${DATA:?the rows}" "${RUN:?the run folder}" "${ZEROLOCK:=zerolock}" "${PORT:=7400}"
coordinator=$(hostname -i | awk '{print $1}')
export ZEROLOCK_TOKEN
ZEROLOCK_TOKEN=$(openssl rand -hex 16)
# The cluster's network is taken to be trusted; for another one make certificates and use --tls instead.
srun --exclusive bash -c "exec $ZEROLOCK executor --insecure --join $coordinator:$PORT --name \$(hostname -s) \
  --listen \$(hostname -i | awk '{print \$1}'):0 --cache \${TMPDIR:-/tmp}/zerolock" &
"$ZEROLOCK" coordinator --insecure --listen "$coordinator:$PORT" --executors "$SLURM_NNODES" \
  --stages "$SLURM_NNODES" --model "$MODEL" --data "$DATA" --out "$RUN" "$@"
wait
