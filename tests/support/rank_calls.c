/* SPDX-License-Identifier: Apache-2.0 */
/* See rank_calls.h. */
#include "config.h"

#include "tests/support/rank_calls.h"

#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_CREATED	  (RANK_WORDS - 1) /* the word for it */
#define GUARD_BYTES	  64
#define GUARD		  0xa5
#define SECOND_LIFE_CALLS 10
#define SURVIVORS_NS	  UINT64_C(10000000000)

/* ---- creation -------------------------------------------------------------------------------- */

void rank_apply(struct rank_seat *seat, const struct work_plan *plan)
{
	struct belay_config *config = &seat->config;

	if (plan->fault)
		config->fault = plan->fault;
	if (plan->give_up)
		config->give_up_ms = config->warmup_give_up_ms = plan->give_up;
	if (plan->late)
		config->late_ms = plan->late;
	if (plan->grace)
		config->grace_ms = plan->grace;
	if (plan->paths)
		config->paths = plan->paths;
	if (plan->symm_max)
		config->symm_max = plan->symm_max;
	config->first_seq = plan->first_seq;
}

int rank_create(struct rank_seat *seat, int id_index)
{
	struct belay_health health = {.size = sizeof(health)};

	if (seat->config.fault && !seat->report->injected[0])
		(void)snprintf(seat->report->injected, sizeof(seat->report->injected), "%s",
			       seat->config.fault);
	seat->report->created = belay_comm_create(&seat->comm, &seat->ids[id_index], seat->rank,
						  seat->nranks, &seat->config);
	if (seat->report->created)
		return seat->report->created;
	RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	seat->report->path = health.path;
	return 0;
}

void rank_destroy(struct rank_seat *seat)
{
	seat->report->destroyed = belay_comm_destroy(seat->comm);
	seat->comm = NULL;
}

/* ---- one call -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Magnitudes differ, so that another order of summing gives other bits. */
static float input_value(uint64_t call, int rank, size_t i)
{
	uint64_t x = mix(call << 40 ^ (uint64_t)rank << 32 ^ i);
	float mantissa = (float)(int32_t)(x >> 40) - 8388608.0f;

	return mantissa / (float)(1u << (x & 15));
}

static float expected_value(uint64_t call, int nranks, size_t i)
{
	float sum = input_value(call, 0, i);

	for (int r = 1; r < nranks; r++)
		sum += input_value(call, r, i);
	return sum;
}

/* guard, send, guard, recv, guard; each end of a buffer touches its guard. */
static void lay_out(struct rank_seat *seat, struct call_shape *shape)
{
	size_t bytes = shape->count * sizeof(float);
	size_t needed = 2 * bytes + 5 * GUARD_BYTES + shape->send_shift + shape->recv_shift;

	if (seat->memory_bytes < needed) {
		free(seat->memory);
		seat->memory = aligned_alloc(64, (needed + 63) / 64 * 64);
		seat->memory_bytes = seat->memory ? needed : 0;
		if (!seat->memory)
			abort();
	}
	memset(seat->memory, GUARD, needed);
	shape->send = seat->memory + GUARD_BYTES + shape->send_shift;
	shape->recv = shape->in_place
			      ? shape->send
			      : seat->memory +
					(GUARD_BYTES + shape->send_shift + bytes + 63) / 64 * 64 +
					GUARD_BYTES + shape->recv_shift;
}

static bool guards_are_whole(const char *buffer, size_t bytes)
{
	for (size_t i = 0; i < GUARD_BYTES; i++)
		if ((unsigned char)buffer[bytes + i] != GUARD ||
		    (unsigned char)buffer[-1 - (ptrdiff_t)i] != GUARD)
			return false;
	return true;
}

static void check_output(struct rank_seat *seat, const struct call_shape *shape, uint64_t call)
{
	for (size_t i = 0; i < shape->count; i++) {
		float wanted = expected_value(call, seat->nranks, i), got;
		uint32_t bits;

		memcpy(&got, shape->recv + i * sizeof(float), sizeof(got));
		memcpy(&bits, &got, sizeof(bits));
		seat->report->bits = mix(seat->report->bits + bits);
		if (memcmp(&got, &wanted, sizeof(got)) != 0)
			rank_complain(seat, __FILE__, __LINE__, "output differs at element",
				      (long)i);
	}
}

/* The input of an out-of-place call is the caller's: it must come back as it was. */
static void check_input(struct rank_seat *seat, const struct call_shape *shape, uint64_t call)
{
	for (size_t i = 0; i < shape->count && !shape->in_place; i++) {
		float wanted = input_value(call, seat->rank, i);

		RANK_EXPECT(seat,
			    memcmp(shape->send + i * sizeof(float), &wanted, sizeof(wanted)) == 0);
	}
}

/* After a mismatch recv is untouched, as belay.h says. */
static void check_untouched(struct rank_seat *seat, const struct call_shape *shape, uint64_t call)
{
	for (size_t i = 0; i < shape->count; i++) {
		float wanted = input_value(call, seat->rank, i);

		if (!shape->in_place)
			memset(&wanted, GUARD, sizeof(wanted));
		RANK_EXPECT(seat,
			    memcmp(shape->recv + i * sizeof(float), &wanted, sizeof(wanted)) == 0);
	}
}

static uint64_t own_rescues(const struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};

	if (!fault_results_wanted() || belay_comm_statistics(seat->comm, &statistics))
		return 0;
	return statistics.own_rescues;
}

static int note_failure(struct rank_seat *seat, int status)
{
	if (status && !seat->report->failed) {
		seat->report->failed = status;
		seat->report->failed_at = rank_now_ns();
	}
	return status;
}

static int make_call(struct rank_seat *seat, const struct call_shape *shape)
{
	struct rank_report *report = seat->report;
	uint64_t rescues = own_rescues(seat), ns;
	bool first = !report->failed;
	int status;

	report->began_at = rank_now_ns();
	status = note_failure(seat, belay_allreduce(shape->send, shape->recv, shape->count,
						    BELAY_F32, BELAY_SUM, seat->comm, NULL));
	ns = rank_now_ns() - report->began_at;
	if (status && first)
		report->failed_ns = ns;
	if (!status && own_rescues(seat) > rescues && ns > report->rescue_ns)
		report->rescue_ns = ns;
	return status;
}

bool rank_call_shaped(struct rank_seat *seat, const struct call_shape *given)
{
	struct call_shape shape = *given;
	uint64_t call = ++seat->made;
	bool guarded = !shape.send;
	int status;

	if (guarded)
		lay_out(seat, &shape);
	for (size_t i = 0; i < shape.count; i++) {
		float value = input_value(call, seat->rank, i);

		memcpy(shape.send + i * sizeof(float), &value, sizeof(value));
	}
	status = make_call(seat, &shape);
	if (guarded) {
		RANK_EXPECT(seat, guards_are_whole(shape.send, shape.count * sizeof(float)));
		RANK_EXPECT(seat, guards_are_whole(shape.recv, shape.count * sizeof(float)));
	}
	check_input(seat, &shape, call);
	if (status == BELAY_E_MISMATCH && guarded)
		check_untouched(seat, &shape, call);
	if (status)
		return false;
	seat->report->calls++;
	check_output(seat, &shape, call);
	return true;
}

bool rank_call(struct rank_seat *seat, size_t count)
{
	return rank_call_shaped(seat, &(struct call_shape){.count = count});
}

/* ---- passes ---------------------------------------------------------------------------------- */

bool rank_pass(struct rank_seat *seat, int calls, size_t count)
{
	if (note_failure(seat, belay_pass_begin(seat->comm, NULL)))
		return false;
	for (int i = 0; i < calls; i++)
		if (!rank_call(seat, count))
			return false;
	if (note_failure(seat, belay_pass_end(seat->comm, NULL)))
		return false;
	seat->report->passes++;
	return true;
}

static size_t count_of(const struct rank_seat *seat, const struct work_plan *plan)
{
	if (plan->count)
		return plan->count;
	return seat->made & 1 ? 12000 : 100;
}

struct buffers {
	void *send, *recv;
};

static void take_buffers(struct rank_seat *seat, const struct work_plan *plan, struct buffers *ret)
{
	size_t bytes = (plan->count ? plan->count : 12000) * sizeof(float);

	*ret = (struct buffers){0};
	if (!plan->regions)
		return;
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, bytes, &ret->send), 0);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, bytes, &ret->recv), 0);
}

static bool work_in_passes(struct rank_seat *seat, const struct work_plan *plan,
			   const struct buffers *buffers)
{
	for (int p = 0; p < (plan->passes ? plan->passes : 10); p++) {
		if (note_failure(seat, belay_pass_begin(seat->comm, NULL)))
			return false;
		for (int i = 0; i < (plan->calls ? plan->calls : 5); i++) {
			struct call_shape shape = {
				.count = count_of(seat, plan),
				.in_place = plan->in_place,
				.send = buffers->send,
				.recv = plan->in_place ? buffers->send : buffers->recv,
			};

			if (!rank_call_shaped(seat, &shape))
				return false;
		}
		if (note_failure(seat, belay_pass_end(seat->comm, NULL)))
			return false;
		seat->report->passes++;
	}
	return true;
}

bool rank_work(struct rank_seat *seat, const struct work_plan *plan)
{
	struct buffers buffers;
	bool well;

	take_buffers(seat, plan, &buffers);
	well = work_in_passes(seat, plan, &buffers);
	(void)belay_buffer_free(seat->comm, buffers.send);
	(void)belay_buffer_free(seat->comm, buffers.recv);
	return well;
}

/* ---- verdict and second life ----------------------------------------------------------------- */

void rank_await_verdict(struct rank_seat *seat)
{
	struct belay_health health = {.size = sizeof(health)};
	uint64_t until = rank_now_ns() + UINT64_C(20000000000);

	for (;;) {
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
		if (health.has_verdict)
			return;
		if (rank_now_ns() >= until)
			break;
		(void)poll(NULL, 0, 1);
	}
	RANK_EXPECT(seat, health.has_verdict);
}

void rank_await_death(struct rank_seat *seat, int rank)
{
	struct belay_rank_health health = {.size = sizeof(health)};
	uint64_t until = rank_now_ns() + UINT64_C(20000000000);

	while (!health.dead && rank_now_ns() < until)
		RANK_EXPECT_STATUS(seat, belay_comm_rank_health(seat->comm, rank, &health), 0);
	RANK_EXPECT(seat, health.dead);
}

void rank_meet_verdict(struct rank_seat *seat)
{
	struct rank_report *report = seat->report;
	float in = 1, out = 0;
	uint64_t begin;

	report->verdict.size = sizeof(report->verdict);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(seat->comm, &report->verdict), 0);
	report->has_verdict = true;
	begin = rank_now_ns();
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(&in, &out, 1, BELAY_F32, BELAY_SUM, seat->comm, NULL),
			   report->verdict.status);
	/* Far less than any deadline of these tests: a refused call waits for nobody. */
	RANK_EXPECT(seat, rank_now_ns() - begin < UINT64_C(5000000000));
	RANK_EXPECT(seat, in == 1 && out == 0);
}

static int place_among(uint64_t mask, int rank)
{
	return __builtin_popcountll(mask & ((UINT64_C(1) << rank) - 1));
}

void rank_live_on(struct rank_seat *seat)
{
	struct rank_report *report = seat->report;
	struct belay_unique_id id;
	uint64_t mask = 0;

	RANK_EXPECT_STATUS(seat, belay_comm_survivors(seat->comm, SURVIVORS_NS, &mask, &id), 0);
	rank_destroy(seat);
	report->survivors = mask;
	if (!(mask >> seat->rank & 1))
		return;
	seat->rank = place_among(mask, seat->rank);
	seat->nranks = __builtin_popcountll(mask);
	seat->made = 0;
	seat->config.fault = NULL;
	seat->config.first_seq = 0;
	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "20000";
	RANK_EXPECT_STATUS(
		seat, belay_comm_create(&seat->comm, &id, seat->rank, seat->nranks, &seat->config),
		0);
	if (!seat->comm)
		return;
	while (report->second_life < SECOND_LIFE_CALLS && rank_call(seat, 500))
		report->second_life++;
	RANK_EXPECT_STATUS(seat, belay_comm_destroy(seat->comm), 0);
	seat->comm = NULL;
}

void rank_end_of_life(struct rank_seat *seat, const struct work_plan *plan)
{
	struct rank_report *report = seat->report;

	report->statistics.size = sizeof(report->statistics);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(seat->comm, &report->statistics), 0);
	if (report->failed)
		rank_meet_verdict(seat);
	if (report->failed && !plan->stay)
		rank_live_on(seat);
	else
		rank_destroy(seat);
}

void rank_life(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;

	rank_apply(seat, plan);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	if (!seat->comm)
		return;
	/* A fault in the first call is not to hit a peer that is still on its way out of the
	 * creation. */
	rank_announce(seat, RANK_CREATED);
	(void)rank_await(seat, RANK_CREATED, (uint64_t)seat->nranks);
	(void)rank_work(seat, plan);
	rank_end_of_life(seat, plan);
}

/* ---- the test's side ------------------------------------------------------------------------- */

void assert_all_well(const struct rank_group *group)
{
	for (int r = 0; r < group->nranks; r++) {
		const struct rank_report *report = &group->report[r];

		ck_assert_msg(report->ended, "rank %d did not end", r);
		ck_assert_msg(report->failed == 0, "rank %d: %s: %s", r,
			      belay_status_name(report->failed), report->message);
		ck_assert_int_eq(report->destroyed, 0);
		ck_assert_uint_eq(report->bits, group->report[0].bits);
	}
}

static void assert_same_verdict(const struct belay_verdict *a, const struct belay_verdict *b)
{
	ck_assert_uint_eq(a->seq, b->seq);
	ck_assert_uint_eq(a->pass, b->pass);
	ck_assert_int_eq(a->cause, b->cause);
	ck_assert_int_eq(a->status, b->status);
	ck_assert_int_eq(a->rank, b->rank);
	ck_assert_int_eq(a->proposer, b->proposer);
	ck_assert_str_eq(a->text, b->text);
}

void assert_one_verdict(const struct rank_group *group, uint64_t survivors, enum belay_cause cause,
			int culprit, uint64_t seq)
{
	const struct rank_report *first = &group->report[__builtin_ctzll(survivors)];

	for (int r = 0; r < group->nranks; r++) {
		const struct rank_report *report = &group->report[r];

		if (!(survivors >> r & 1))
			continue;
		ck_assert_msg(report->ended && report->has_verdict, "rank %d has no verdict", r);
		ck_assert_int_eq(report->failed, report->verdict.status);
		assert_same_verdict(&report->verdict, &first->verdict);
		ck_assert_uint_eq(report->passes, first->passes);
	}
	ck_assert_msg(first->verdict.cause == cause, "cause %s: %s",
		      belay_cause_name(first->verdict.cause), first->verdict.text);
	ck_assert_msg(culprit < -1 || first->verdict.rank == culprit, "culprit %d: %s",
		      first->verdict.rank, first->verdict.text);
	ck_assert_msg(seq == 0 || first->verdict.seq == seq, "seq %llu: %s",
		      (unsigned long long)first->verdict.seq, first->verdict.text);
}

void assert_lived_on(const struct rank_group *group, uint64_t survivors)
{
	for (int r = 0; r < group->nranks; r++) {
		if (!(survivors >> r & 1))
			continue;
		ck_assert_uint_eq(group->report[r].survivors, survivors);
		ck_assert_uint_eq(group->report[r].second_life, SECOND_LIFE_CALLS);
	}
}
