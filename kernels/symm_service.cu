/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rank_order_sum.cuh"
#include "kernels/symm_device.cuh"
#include "kernels/symm_kernels.h"
