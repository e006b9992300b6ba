/* SPDX-License-Identifier: Apache-2.0 */
/* A build without CUDA: nothing can be launched. Nobody gets here, for no device can be opened. */
#include "kernels/symm_kernels.h"

#define UNUSED __attribute__((unused))

/* cudaErrorNoKernelImageForDevice */
#define NO_KERNELS 209

int symm_kernels_load(const char **ret_what)
{
	*ret_what = "built without CUDA";
	return NO_KERNELS;
}

int symm_launch_call(const struct symm_comm *comm UNUSED, const struct symm_launch *launch UNUSED,
		     struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_parked(const struct symm_comm *comm UNUSED, const struct symm_launch *launch UNUSED,
		       struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_gate(const struct symm_comm *comm UNUSED, const struct symm_launch *launch UNUSED,
		     struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_gate_end(const struct symm_comm *comm UNUSED,
			 const struct symm_launch *launch UNUSED, struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_pass(const struct symm_comm *comm UNUSED, int begin UNUSED, uint64_t ticket UNUSED,
		     struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_init(const struct symm_comm *comm UNUSED, uint64_t turn_before UNUSED,
		     uint64_t seq_before UNUSED, struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_selftest_write(const struct symm_comm *comm UNUSED, uint64_t nonce UNUSED,
			       int spoil UNUSED, struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_selftest_verify(const struct symm_comm *comm UNUSED, uint64_t nonce UNUSED,
				int32_t *verdict UNUSED, struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_probe(const struct symm_comm *comm UNUSED, uint64_t round UNUSED, int drop UNUSED,
		      struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_probe_read(const struct symm_comm *comm UNUSED, uint64_t round UNUSED,
			   uint32_t *ret_seen UNUSED, struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_link_probe(const struct symm_comm *comm UNUSED, int pull UNUSED, uint64_t ns UNUSED,
			   struct symm_moved *moved UNUSED, struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_reduce(const void *parts UNUSED, uint64_t part_stride UNUSED,
		       uint32_t nranks UNUSED, uint64_t count UNUSED, int dtype UNUSED,
		       int op UNUSED, void *output UNUSED, uint64_t *digest UNUSED,
		       struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}

int symm_launch_calibrate(const struct symm_comm *comm UNUSED, uint64_t round UNUSED,
			  uint64_t max_ns UNUSED, struct CUstream_st *stream UNUSED)
{
	return NO_KERNELS;
}
