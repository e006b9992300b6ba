/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of element types and operations in this folder: those of belay.h, which it does not
 * include; the unit tests use belay.h's. Read by C11 and by CUDA C.
 */
#ifndef BELAY_KERNELS_SUM_TYPES_H
#define BELAY_KERNELS_SUM_TYPES_H

enum {
	HOST_SUM_F32 = 1,
	HOST_SUM_F64,
	HOST_SUM_F16,
	HOST_SUM_BF16,
	HOST_SUM_I32,
	HOST_SUM_I64,
	HOST_SUM_U8,
	HOST_SUM_I8,
	HOST_SUM_DTYPES
};
enum { HOST_SUM_SUM = 1, HOST_SUM_MAX, HOST_SUM_MIN, HOST_SUM_PROD, HOST_SUM_OPS };

#endif /* BELAY_KERNELS_SUM_TYPES_H */
