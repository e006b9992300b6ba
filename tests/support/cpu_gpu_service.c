/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that are not a turn: first contents, self-test, probe, clock, marks, the sum of a
 * rescue. */
#include "config.h"

#include <string.h>

#include "kernels/host_sum.h"
#include "runtime/belay.h"
#include "tests/support/cpu_gpu_call.h"

#define SELFTEST_WORDS (SYMM_SELFTEST_BYTES / sizeof(uint64_t))

/* One for all of them: each takes of it what it needs. */
struct service_arguments {
	struct symm_comm comm;
	uint64_t number, max_ns;
	int choice; /* spoil, drop, begin */
	void *answer;
};

static int enqueue(const struct cpu_gpu_kernel *kernel, const struct service_arguments *arguments,
		   struct CUstream_st *stream)
{
	int code = cpu_gpu_enter(kernel->name);

	return code ? code : cpu_gpu_enqueue(stream, kernel, arguments);
}

#define SERVICE(function)                                                                          \
	static const struct cpu_gpu_kernel function##_kernel = {                                   \
		.name = "symm_launch_" #function,                                                  \
		.argument_bytes = sizeof(struct service_arguments),                                \
		.run_bytes = sizeof(uint64_t),                                                     \
		.step = function}

static char *own_region(const struct symm_comm *comm)
{
	return region_of_rank(comm, comm->rank);
}

/* ---- init ----------------------------------------------------------------------------------- */

/* The rest of a new region is 0 already. */
static enum cpu_gpu_step init(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;
	const struct symm_layout *layout = &a->comm.layout;
	char *own = own_region(&a->comm);

	(void)run;
	memset(own, 0, layout->wire);
	memset(own + layout->wire, 0xff, layout->retained - layout->wire);
	a->comm.state->mode.dirty[0] = a->comm.state->mode.dirty[1] = SYMM_NO_TURN;
	for (int b = 0; b < SYMM_BLOCKS_MAX; b++)
		a->comm.state->line[b] = (struct symm_line){.turn = a->number, .seq = a->max_ns};
	return CPU_GPU_ENDED;
}
SERVICE(init);

int symm_launch_init(const struct symm_comm *comm, uint64_t turn_before, uint64_t seq_before,
		     struct CUstream_st *stream)
{
	return enqueue(&init_kernel,
		       &(struct service_arguments){
			       .comm = *comm, .number = turn_before, .max_ns = seq_before},
		       stream);
}

/* ---- self-test ------------------------------------------------------------------------------ */

static uint64_t *selftest_line(const struct symm_comm *comm, uint32_t owner, uint32_t writer)
{
	return (uint64_t *)(region_of_rank(comm, owner) + comm->layout.selftest +
			    writer * SYMM_SELFTEST_BYTES);
}

static uint64_t selftest_word(uint64_t nonce, uint32_t writer, uint32_t owner, size_t i)
{
	return symm_mix(symm_mix(nonce, (uint64_t)writer << 32 | owner), i);
}

static enum cpu_gpu_step selftest_write(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;

	(void)run;
	for (uint32_t q = 0; q < a->comm.nranks; q++) {
		uint64_t *line = selftest_line(&a->comm, q, a->comm.rank);

		for (size_t i = 0; i < SELFTEST_WORDS; i++)
			store_word(&line[i], selftest_word(a->number, a->comm.rank, q, i));
		if (a->choice)
			store_word(&line[SELFTEST_WORDS - 1], 0);
	}
	return CPU_GPU_ENDED;
}
SERVICE(selftest_write);

static enum cpu_gpu_step selftest_verify(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;
	int32_t wrong = -1;

	(void)run;
	for (uint32_t q = 0; q < a->comm.nranks && wrong < 0; q++) {
		const uint64_t *line = selftest_line(&a->comm, a->comm.rank, q);

		for (size_t i = 0; i < SELFTEST_WORDS; i++)
			if (load_word(&line[i]) != selftest_word(a->number, q, a->comm.rank, i))
				wrong = (int32_t)q;
	}
	*(int32_t *)a->answer = wrong;
	return CPU_GPU_ENDED;
}
SERVICE(selftest_verify);

int symm_launch_selftest_write(const struct symm_comm *comm, uint64_t nonce, int spoil,
			       struct CUstream_st *stream)
{
	return enqueue(&selftest_write_kernel,
		       &(struct service_arguments){.comm = *comm, .number = nonce, .choice = spoil},
		       stream);
}

int symm_launch_selftest_verify(const struct symm_comm *comm, uint64_t nonce, int32_t *verdict,
				struct CUstream_st *stream)
{
	return enqueue(
		&selftest_verify_kernel,
		&(struct service_arguments){.comm = *comm, .number = nonce, .answer = verdict},
		stream);
}

/* ---- how fast links are --------------------------------------------------------------------- */

/* Memory of one machine: as fast one way as the other. */
static enum cpu_gpu_step link_probe(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;
	struct symm_moved *moved = a->answer;

	(void)run;
	for (unsigned b = 0; b < SYMM_LINK_BLOCKS; b++)
		moved[b] = (struct symm_moved){.bytes = 1 << 20, .ns = a->max_ns};
	return CPU_GPU_ENDED;
}
SERVICE(link_probe);

int symm_launch_link_probe(const struct symm_comm *comm, int pull, uint64_t ns,
			   struct symm_moved *moved, struct CUstream_st *stream)
{
	return enqueue(&link_probe_kernel,
		       &(struct service_arguments){
			       .comm = *comm, .choice = pull, .max_ns = ns, .answer = moved},
		       stream);
}

/* ---- the breaker's probe -------------------------------------------------------------------- */

static uint64_t *probe_word(const struct symm_comm *comm, uint32_t owner, uint32_t writer)
{
	return (uint64_t *)(region_of_rank(comm, owner) + comm->layout.probe) + writer;
}

static enum cpu_gpu_step probe(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;

	(void)run;
	for (uint32_t q = 0; q < a->comm.nranks; q++)
		store_word(probe_word(&a->comm, q, a->comm.rank), a->number);
	return CPU_GPU_ENDED;
}
SERVICE(probe);

static enum cpu_gpu_step probe_read(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;
	uint32_t seen = 0;

	(void)run;
	for (uint32_t q = 0; q < a->comm.nranks; q++)
		seen += q != a->comm.rank &&
			load_word(probe_word(&a->comm, a->comm.rank, q)) >= a->number;
	*(uint32_t *)a->answer = seen;
	return CPU_GPU_ENDED;
}
SERVICE(probe_read);

int symm_launch_probe(const struct symm_comm *comm, uint64_t round, int drop,
		      struct CUstream_st *stream)
{
	if (drop)
		return 0;
	return enqueue(&probe_kernel, &(struct service_arguments){.comm = *comm, .number = round},
		       stream);
}

int symm_launch_probe_read(const struct symm_comm *comm, uint64_t round, uint32_t *ret_seen,
			   struct CUstream_st *stream)
{
	return enqueue(
		&probe_read_kernel,
		&(struct service_arguments){.comm = *comm, .number = round, .answer = ret_seen},
		stream);
}

/* ---- clock ---------------------------------------------------------------------------------- */

static enum cpu_gpu_step calibrate(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;
	uint64_t *start = run;

	if (!*start)
		*start = cpu_gpu_ticks();
	if (load_word(&a->comm.orders->calibration) != a->number)
		return cpu_gpu_ticks() - *start > a->max_ns ? CPU_GPU_ENDED : CPU_GPU_WAITING;
	/* One store on a GPU: here the ticks come first. */
	store_word(&a->comm.posts->calibration[1], cpu_gpu_ticks());
	store_word(&a->comm.posts->calibration[0], a->number);
	return CPU_GPU_ENDED;
}
SERVICE(calibrate);

int symm_launch_calibrate(const struct symm_comm *comm, uint64_t round, uint64_t max_ns,
			  struct CUstream_st *stream)
{
	return enqueue(
		&calibrate_kernel,
		&(struct service_arguments){.comm = *comm, .number = round, .max_ns = max_ns},
		stream);
}

/* ---- pass marks ----------------------------------------------------------------------------- */

static void post_pass_end(struct symm_posts *posts, const struct symm_line *line)
{
	bool empty = line->index == 0;

	store_word(&posts->pass_first_seq, empty ? 0 : line->seq - line->index + 1);
	store_word(&posts->pass_last_seq, empty ? 0 : line->seq);
	store_word(&posts->pass_last_turn, line->turn);
	store_word(&posts->pass_ended, line->pass);
}

/* A communicator that has failed counts no more (V6), but tells that a pass has ended there. */
static enum cpu_gpu_step pass(const void *arguments, void *run)
{
	const struct service_arguments *a = arguments;
	struct symm_state *state = a->comm.state;
	struct symm_line line = state->line[0];

	(void)run;
	if (load_word(&state->mode.failed)) {
		if (!a->choice)
			store_word(&a->comm.posts->pass_failed, 1);
		return CPU_GPU_ENDED;
	}
	if (a->choice) {
		line.pass++;
		line.index = 0;
	}
	line.open = a->choice != 0;
	for (int b = 0; b < SYMM_BLOCKS_MAX; b++)
		state->line[b] = line;
	if (a->choice)
		store_word(&a->comm.posts->pass_begun, line.pass);
	else
		post_pass_end(a->comm.posts, &line);
	if (a->number)
		store_ticket(a->comm.posts, a->number, line.turn);
	return CPU_GPU_ENDED;
}
SERVICE(pass);

int symm_launch_pass(const struct symm_comm *comm, int begin, uint64_t ticket,
		     struct CUstream_st *stream)
{
	return enqueue(
		&pass_kernel,
		&(struct service_arguments){.comm = *comm, .number = ticket, .choice = begin},
		stream);
}

/* ---- the sum of a rescue -------------------------------------------------------------------- */

struct reduce_arguments {
	const char *parts;
	uint64_t part_stride, count;
	uint32_t nranks;
	int dtype, op;
	void *output;
	uint64_t *digest;
};

static enum cpu_gpu_step reduce(const void *arguments, void *run)
{
	const struct reduce_arguments *a = arguments;
	const void *sources[SYMM_RANKS_MAX];

	(void)run;
	for (uint32_t q = 0; q < a->nranks; q++)
		sources[q] = a->parts + q * a->part_stride;
	*a->digest += host_sum(&(struct host_sum_job){.sources = sources,
						      .nsources = a->nranks,
						      .destinations = (void *const *)&a->output,
						      .ndestinations = 1,
						      .count = a->count,
						      .dtype = a->dtype,
						      .op = a->op});
	return CPU_GPU_ENDED;
}

static const struct cpu_gpu_kernel reduce_kernel = {.name = "symm_launch_reduce",
						    .argument_bytes =
							    sizeof(struct reduce_arguments),
						    .step = reduce};

int symm_launch_reduce(const void *parts, uint64_t part_stride, uint32_t nranks, uint64_t count,
		       int dtype, int op, void *output, uint64_t *digest,
		       struct CUstream_st *stream)
{
	int code = cpu_gpu_enter("symm_launch_reduce");
	struct reduce_arguments arguments = {.parts = parts,
					     .part_stride = part_stride,
					     .count = count,
					     .nranks = nranks,
					     .dtype = dtype,
					     .op = op,
					     .output = output,
					     .digest = digest};

	return code ? code : cpu_gpu_enqueue(stream, &reduce_kernel, &arguments);
}
