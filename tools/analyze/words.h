/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them. Each writes into the buffer given and returns it. Pure. */
#ifndef BELAY_TOOLS_ANALYZE_WORDS_H
#define BELAY_TOOLS_ANALYZE_WORDS_H

#include <stdint.h>

#define WORDS_RANKS_BYTES 208
#define WORDS_TIME_BYTES  32
#define WORDS_PLACE_BYTES 64
#define WORDS_NAME_BYTES  16

/* "0-2,5"; "none" for 0. */
const char *words_ranks(uint64_t mask, char *buffer);
/* "850 ns", "31.2 us", "12.0 ms", "3.15 s". */
const char *words_time(uint64_t ns, char *buffer);
/* "14336", "112K", "7.0M". */
const char *words_bytes(uint64_t bytes, char *buffer);
/* "seq 5000 (pass 41)"; "seq 5000" when pass is 0. */
const char *words_place(uint64_t seq, uint64_t pass, char *buffer);

/* Of enum belay_op and enum belay_dtype; those of newer versions by their numbers. */
const char *words_op(uint8_t op, char *buffer);
const char *words_dtype(uint8_t dtype, char *buffer);
/* What a call is: "allreduce" with whatever reduction, else as words_op(). */
const char *words_collective(uint8_t op, char *buffer);

#endif /* BELAY_TOOLS_ANALYZE_WORDS_H */
