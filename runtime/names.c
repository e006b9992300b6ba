/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of the public enums, and the library's version. */
#include "runtime/belay.h"

#define STRINGIFY(x)			  #x
#define VERSION_TEXT(major, minor, patch) STRINGIFY(major) "." STRINGIFY(minor) "." STRINGIFY(patch)

const char *belay_version(void)
{
	return VERSION_TEXT(BELAY_VERSION_MAJOR, BELAY_VERSION_MINOR, BELAY_VERSION_PATCH);
}

int belay_version_number(void)
{
	return BELAY_VERSION;
}

static const struct {
	const char *name;
	size_t bytes;
} dtypes[] = {
	[BELAY_F32] = {"f32", 4},   [BELAY_F64] = {"f64", 8},	    [BELAY_F16] = {"f16", 2},
	[BELAY_BF16] = {"bf16", 2}, [BELAY_I32] = {"i32", 4},	    [BELAY_I64] = {"i64", 8},
	[BELAY_U8] = {"u8", 1},	    [BELAY_I8] = {"i8", 1},	    [BELAY_U32] = {"u32", 4},
	[BELAY_U64] = {"u64", 8},   [BELAY_F8E4M3] = {"f8e4m3", 1}, [BELAY_F8E5M2] = {"f8e5m2", 1},
};

static const char *const ops[] = {
	[BELAY_SUM] = "sum",
	[BELAY_MAX] = "max",
	[BELAY_MIN] = "min",
	[BELAY_PROD] = "prod",
	[BELAY_AVG] = "avg",
	[BELAY_USER_OP] = "user",
	[BELAY_ALL_GATHER] = "allgather",
	[BELAY_REDUCE_SCATTER] = "reduce-scatter",
	[BELAY_BROADCAST] = "broadcast",
	[BELAY_REDUCE] = "reduce",
	[BELAY_ALL_TO_ALL] = "alltoall",
	[BELAY_GATHER] = "gather",
	[BELAY_SCATTER] = "scatter",
};

static const char *const paths[] = {
	[BELAY_PATH_SYMM] = "symm",
	[BELAY_PATH_NCCL] = "nccl",
	[BELAY_PATH_HOST] = "host",
	[BELAY_PATH_RING] = "ring",
};

static const char *const algorithms[] = {
	[BELAY_ALGORITHM_ONESHOT] = "oneshot",
	[BELAY_ALGORITHM_TWOSHOT] = "twoshot",
	[BELAY_ALGORITHM_TWOSHOT_PULL] = "twoshot-pull",
	[BELAY_ALGORITHM_ISLAND] = "island",
	[BELAY_ALGORITHM_GATHER] = "gather",
};

static const char *const causes[] = {
	[BELAY_CAUSE_NONE] = "none",
	[BELAY_CAUSE_PEER_LOST] = "peer_lost",
	[BELAY_CAUSE_PEER_STUCK] = "peer_stuck",
	[BELAY_CAUSE_MISMATCH] = "mismatch",
	[BELAY_CAUSE_GPU_FAULT] = "gpu_fault",
	[BELAY_CAUSE_NCCL_FAILED] = "nccl_failed",
	[BELAY_CAUSE_ABORTED] = "aborted",
	[BELAY_CAUSE_INTERNAL] = "internal",
};

#define NAME_OF(table, value)                                                                      \
	((size_t)(value) < sizeof(table) / sizeof((table)[0]) && (table)[value] ? (table)[value]   \
										: "unknown")

const char *belay_dtype_name(enum belay_dtype dtype)
{
	if ((size_t)dtype >= sizeof(dtypes) / sizeof(dtypes[0]) || !dtypes[dtype].name)
		return "unknown";
	return dtypes[dtype].name;
}

size_t belay_dtype_bytes(enum belay_dtype dtype)
{
	return (size_t)dtype < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[dtype].bytes : 0;
}

const char *belay_op_name(enum belay_op op)
{
	return NAME_OF(ops, op);
}

const char *belay_path_name(enum belay_path path)
{
	return NAME_OF(paths, path);
}

const char *belay_algorithm_name(enum belay_algorithm algorithm)
{
	return NAME_OF(algorithms, algorithm);
}

const char *belay_cause_name(enum belay_cause cause)
{
	return NAME_OF(causes, cause);
}
