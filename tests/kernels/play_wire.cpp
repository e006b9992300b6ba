/* SPDX-License-Identifier: Apache-2.0 */
/* kernels/one_shot_wire.cu for the played GPU. */
#include "tests/kernels/played_device.h"

/* Compiled in place. */
#include "kernels/one_shot_wire.cu"
