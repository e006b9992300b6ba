/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over the files that are named, each as it is, and then cut and with bytes
 * changed at seeded places: the corpus in `make check`, without a fuzzer.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz_target.h"

#define INPUT_MAX (1 << 20)
#ifndef CHANGES
#define CHANGES 2000 /* of each input; fewer where an input takes long */
#endif

static void run_changed(uint8_t *data, size_t size)
{
	unsigned int seed = 1;

	for (size_t cut = 0; cut < size; cut++)
		(void)LLVMFuzzerTestOneInput(data, cut);
	for (int i = 0; i < CHANGES && size > 0; i++) {
		size_t at = (size_t)rand_r(&seed) % size;
		uint8_t before = data[at];

		data[at] = (uint8_t)rand_r(&seed);
		(void)LLVMFuzzerTestOneInput(data, size);
		data[at] = before;
	}
}

static int replay(const char *name)
{
	FILE *file = fopen(name, "rb");
	uint8_t *data = malloc(INPUT_MAX);
	size_t size;

	if (!file || !data) {
		perror(name);
		return 1;
	}
	size = fread(data, 1, INPUT_MAX, file);
	fclose(file);
	(void)LLVMFuzzerTestOneInput(data, size);
	run_changed(data, size);
	free(data);
	return 0;
}

int main(int count, char **names)
{
	for (int i = 1; i < count; i++)
		if (replay(names[i]) != 0)
			return 1;
	printf("%d inputs\n", count - 1);
	return count < 2;
}
