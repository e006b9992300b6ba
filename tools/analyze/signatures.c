/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/analyze/signatures.h"
#include "tools/analyze/words.h"

static int same_call(const struct signature *a, const struct signature *b)
{
	return a->count == b->count && a->dtype == b->dtype && a->op == b->op;
}

static int same_place(const struct signature *a, const struct signature *b)
{
	return a->pass == b->pass && a->index == b->index;
}

static void add(struct signature_list *list, const struct signature *one)
{
	for (size_t i = 0; i < list->count; i++) {
		struct signature *known = &list->items[i];

		if (same_call(known, one) && same_place(known, one)) {
			known->ranks |= one->ranks;
			return;
		}
		list->places_differ |= !same_place(known, one);
	}
	list->items[list->count++] = *one;
}

void signatures_group(const struct call_row *row, uint64_t ranks, struct signature_list *ret_list)
{
	ret_list->count = 0;
	ret_list->places_differ = 0;
	for (uint64_t left = ranks & row->ranks; left;) {
		uint32_t rank = mask_pop(&left);
		const struct call_record *record = row->records[rank];
		struct signature one = {rank_bit(rank), record->count, record->dtype,
					record->op,	record->pass,  record->index};

		add(ret_list, &one);
	}
}

void signatures_text(const struct call_row *row, uint64_t ranks, char *ret_text, size_t size)
{
	struct signature_list list;
	size_t used = 0;

	signatures_group(row, ranks, &list);
	ret_text[0] = '\0';
	for (size_t i = 0; i < list.count && used < size; i++) {
		const struct signature *one = &list.items[i];
		char who[WORDS_RANKS_BYTES], dtype[WORDS_NAME_BYTES], op[WORDS_NAME_BYTES];

		used += (size_t)snprintf(ret_text + used, size - used,
					 "%srank %s: %" PRIu64 " %s %s", i ? "; " : "",
					 words_ranks(one->ranks, who), one->count,
					 words_dtype(one->dtype, dtype), words_op(one->op, op));
		if (list.places_differ && used < size)
			used += (size_t)snprintf(ret_text + used, size - used,
						 ", place %" PRIu32 " of pass %" PRIu64, one->index,
						 one->pass);
	}
}
