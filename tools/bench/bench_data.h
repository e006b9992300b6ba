/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inputs of belay-bench and the results they must have. Every element is a function of (seed,
 * rank, place), so that any process can make any stretch of any rank's input. The expected result
 * is computed here, apart from the library: in rank order, in float32 (float64 for f64; integers
 * wrap), rounded once.
 */
#ifndef BELAY_TOOLS_BENCH_DATA_H
#define BELAY_TOOLS_BENCH_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"

/* A well mixed 64-bit number from any other. */
uint64_t data_mix(uint64_t value);

/*
 * Elements first .. first + count - 1 of a rank's input: ordinary magnitudes of both signs, now and
 * then a zero of either sign or a subnormal; for integers all bits.
 */
void data_input(enum belay_dtype dtype, uint64_t seed, int rank, size_t first, size_t count,
		void *ret_elements);

/* The result that those elements of all ranks must have. */
void data_expected(enum belay_dtype dtype, enum belay_op op, uint64_t seed, int nranks,
		   size_t first, size_t count, void *ret_elements);

/*
 * Could these be the results of the same elements, combined in another order and rounded at each
 * step? True: each is within the bound of rounding errors. Integers, max and min have no such
 * freedom.
 */
int data_is_close(enum belay_dtype dtype, enum belay_op op, uint64_t seed, int nranks, size_t first,
		  size_t count, const void *elements);

/* Combines `with` into `total`, both as data_expected() keeps them between ranks; for tests. */
float data_combine_f32(enum belay_op op, float total, float with);

/* Conversions of the 16-bit types; to them: to nearest, ties to even, and one NaN. */
float data_from_bf16(uint16_t bits);
uint16_t data_to_bf16(float value);
float data_from_f16(uint16_t bits);
uint16_t data_to_f16(float value);

#endif /* BELAY_TOOLS_BENCH_DATA_H */
