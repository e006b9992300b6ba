/* SPDX-License-Identifier: Apache-2.0 */
/* kernels/island.cu for the played GPU. */
#include "tests/kernels/played_device.h"

/* Compiled in place. */
#include "kernels/island.cu"
