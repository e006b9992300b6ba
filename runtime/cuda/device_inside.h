/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of creation share: being a guest on an application's thread, and its errors. */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_INSIDE_H
#define BELAY_RUNTIME_CUDA_DEVICE_INSIDE_H

#include "runtime/cuda/device.h"

/* Bound of what creation waits for on its stream: copies and small kernels of its own. */
#define DEVICE_STREAM_WAIT_NS (20 * UINT64_C(1000000000))

/* Between begin and end the device is current in the calling thread, and what is asked of CUDA
 * harms no capture; afterwards all is as the application had it. */
struct device_visit {
	int context, capture;
};
int device_visit_begin(int ordinal, struct device_visit *ret_visit, struct gpu_error *ret_error);
void device_visit_end(const struct device_visit *visit);

/* Gives the regions back: own and mapped ones. */
void device_unshare(struct device *device);

/* Waits for the device's stream. 0, or -1 with the error. */
int device_settle(struct device *device, struct gpu_error *ret_error);

/* "CALL: its code in words (code)". */
void device_error_text(const struct gpu_error *error, char *text, size_t size);

/* Adds an error to the chain; returns the status for it. */
int device_cause(struct belay_comm *comm, const char *what, const struct gpu_error *error);

/* Fills symm.faults and nfaults from the communicator's faults for this rank. */
int device_faults_load(struct belay_comm *comm, struct device *device, struct gpu_error *ret_error);

/* The faults of `rank` that kernels carry out; returns how many. Pure. */
uint32_t device_faults_pick(const struct faults *faults, int rank,
			    struct symm_fault list[SYMM_FAULTS_MAX]);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_INSIDE_H */
