#!/usr/bin/env bash
# An array of Slurm: sbatch --array=1-8 slurm.sh work.jsonl kernels. Each task makes its share; the
# folder is on a file system that all nodes see. When all are done, any machine joins the bundle:
#
#   spjit work work.jsonl --out kernels --bundle model.spjit --key release.pem

#SBATCH --job-name=spjit
#SBATCH --cpus-per-task=1
#SBATCH --requeue

set -euo pipefail

exec spjit work "$1" --out "$2" --only "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
