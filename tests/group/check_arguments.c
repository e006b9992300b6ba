/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every bad argument of every function of belay.h: the documented status, outputs untouched, and a
 * communicator that works on as if nothing had been asked.
 */
#include "config.h"

#include <check.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fault_variants.h"

#define BAD(seat, call) RANK_EXPECT_STATUS(seat, call, BELAY_E_ARGUMENT)

static void run(int nranks, rank_scenario scenario, struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = nranks, .scenario = scenario}, ret_group);
}

static struct CUstream_st *some_stream(void)
{
	static char somewhere;

	return (struct CUstream_st *)(void *)&somewhere;
}

/* After each group of refusals: one call that must be the next one on all ranks. */
static void still_works(struct rank_seat *seat)
{
	RANK_EXPECT(seat, rank_call(seat, 64));
}

static void refuse_calls(struct rank_seat *seat)
{
	struct belay_comm *comm = seat->comm;
	float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {9, 9, 9, 9, 9, 9, 9, 9};
	struct belay_health health = {.size = sizeof(health)};
	int count = 0;

	BAD(seat, belay_allreduce(NULL, out, 4, BELAY_F32, BELAY_SUM, comm, NULL));
	BAD(seat, belay_allreduce(in, NULL, 4, BELAY_F32, BELAY_SUM, comm, NULL));
	BAD(seat, belay_allreduce(in, out, 4, BELAY_F32, BELAY_SUM, NULL, NULL));
	BAD(seat, belay_allreduce(in, out, SIZE_MAX, BELAY_F32, BELAY_SUM, comm, NULL));
	BAD(seat, belay_allreduce(in, out, SIZE_MAX / 4, BELAY_F32, BELAY_SUM, comm, NULL));
	for (int bad = -1; bad < 12; bad++) {
		if (bad < BELAY_F32 || bad > BELAY_I8)
			BAD(seat, belay_allreduce(in, out, 4, (enum belay_dtype)bad, BELAY_SUM,
						  comm, NULL));
		if (bad < BELAY_SUM || bad > BELAY_PROD)
			BAD(seat,
			    belay_allreduce(in, out, 4, BELAY_F32, (enum belay_op)bad, comm, NULL));
	}
	/* F64: overlapping in part, from both sides. */
	BAD(seat, belay_allreduce(in, in + 1, 4, BELAY_F32, BELAY_SUM, comm, NULL));
	BAD(seat, belay_allreduce(in + 3, in, 4, BELAY_F32, BELAY_SUM, comm, NULL));
	BAD(seat, belay_allreduce(in, (char *)in + 1, 4, BELAY_U8, BELAY_SUM, comm, NULL));
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(in, out, 4, BELAY_F32, BELAY_SUM, comm, some_stream()),
			   BELAY_E_UNSUPPORTED);
	for (int i = 0; i < 8; i++)
		count += in[i] == (float)(i + 1) && out[i] == 9;
	RANK_EXPECT(seat, count == 8);
	RANK_EXPECT_STATUS(seat, belay_comm_health(comm, &health), 0);
	RANK_EXPECT(seat, health.seq == seat->made && !health.in_call);
	still_works(seat);
	/* Side by side is no overlap. */
	RANK_EXPECT_STATUS(seat, belay_allreduce(in, in + 4, 4, BELAY_F32, BELAY_SUM, comm, NULL),
			   0);
	RANK_EXPECT(seat, in[4] == (float)seat->nranks && in[7] == 4 * (float)seat->nranks);
}

static void refuse_passes(struct rank_seat *seat)
{
	struct belay_comm *comm = seat->comm;
	struct belay_pass_info info = {.size = sizeof(info), .pass = 77},
			       small = {.size = 8, .pass = 78};

	BAD(seat, belay_pass_begin(NULL, NULL));
	BAD(seat, belay_pass_end(NULL, NULL));
	BAD(seat, belay_pass_wait(NULL, &info));
	BAD(seat, belay_pass_wait(comm, &small));
	RANK_EXPECT_STATUS(seat, belay_pass_begin(comm, some_stream()), BELAY_E_UNSUPPORTED);
	RANK_EXPECT_STATUS(seat, belay_pass_end(comm, some_stream()), BELAY_E_UNSUPPORTED);
	RANK_EXPECT_STATUS(seat, belay_pass_end(comm, NULL), BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(comm, &info), BELAY_E_STATE);
	RANK_EXPECT(seat, info.pass == 77 && small.pass == 78);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(comm, NULL), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(comm, NULL), BELAY_E_STATE);
	still_works(seat);
	RANK_EXPECT_STATUS(seat, belay_pass_end(comm, NULL), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_end(comm, NULL), BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(comm, &info), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(comm, NULL), 0);
	RANK_EXPECT(seat, info.pass == 1 && info.first_seq == info.last_seq && info.first_seq > 0);
	/* A pass without calls is one too. */
	RANK_EXPECT_STATUS(seat, belay_pass_begin(comm, NULL), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_end(comm, NULL), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(comm, &info), 0);
	RANK_EXPECT(seat, info.pass == 2 && info.first_seq == 0 && info.last_seq == 0);
	still_works(seat);
}

static void refuse_buffers(struct rank_seat *seat)
{
	struct belay_comm *comm = seat->comm;
	void *buffer = seat;

	BAD(seat, belay_buffer_alloc(NULL, 10, &buffer));
	BAD(seat, belay_buffer_alloc(comm, 0, &buffer));
	BAD(seat, belay_buffer_alloc(comm, 10, NULL));
	BAD(seat, belay_buffer_free(NULL, seat));
	BAD(seat, belay_buffer_free(comm, seat));
	RANK_EXPECT(seat, buffer == seat);
	RANK_EXPECT_STATUS(seat, belay_buffer_free(comm, NULL), 0);
	still_works(seat);
}

static void refuse_queries(struct rank_seat *seat)
{
	struct belay_comm *comm = seat->comm;
	struct belay_health health = {.size = 8, .seq = 5};
	struct belay_rank_health rank = {.size = 8, .seq = 6},
				 whole = {.size = sizeof(whole), .seq = 6};
	struct belay_statistics statistics = {.size = 8, .calls = 7};
	struct belay_verdict verdict = {.size = 8, .seq = 8};
	size_t needed = 0;
	char text[16] = "untouched";

	BAD(seat, belay_comm_health(NULL, &health));
	BAD(seat, belay_comm_health(comm, NULL));
	BAD(seat, belay_comm_health(comm, &health));
	BAD(seat, belay_comm_rank_health(NULL, 0, &whole));
	BAD(seat, belay_comm_rank_health(comm, 0, NULL));
	BAD(seat, belay_comm_rank_health(comm, 0, &rank));
	BAD(seat, belay_comm_rank_health(comm, -1, &whole));
	BAD(seat, belay_comm_rank_health(comm, seat->nranks, &whole));
	BAD(seat, belay_comm_statistics(NULL, &statistics));
	BAD(seat, belay_comm_statistics(comm, NULL));
	BAD(seat, belay_comm_statistics(comm, &statistics));
	BAD(seat, belay_comm_verdict(NULL, &verdict));
	BAD(seat, belay_comm_verdict(comm, NULL));
	BAD(seat, belay_comm_verdict(comm, &verdict));
	verdict.size = sizeof(verdict);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(comm, &verdict), BELAY_E_STATE);
	RANK_EXPECT(seat, health.seq == 5 && rank.seq == 6 && whole.seq == 6 &&
				  statistics.calls == 7 && verdict.seq == 8);
	BAD(seat, belay_comm_causes(NULL, text, sizeof(text), &needed));
	BAD(seat, belay_comm_causes(comm, NULL, 1, &needed));
	RANK_EXPECT(seat, strcmp(text, "untouched") == 0 && needed == 0);
	RANK_EXPECT_STATUS(seat, belay_comm_causes(comm, text, sizeof(text), &needed), 0);
	RANK_EXPECT(seat, needed >= 1 && memchr(text, 0, sizeof(text)));
	RANK_EXPECT_STATUS(seat, belay_comm_causes(comm, NULL, 0, NULL), 0);
	RANK_EXPECT(seat, belay_comm_rank(NULL) == -1 && belay_comm_nranks(NULL) == -1);
	RANK_EXPECT(seat, belay_comm_id(NULL) == NULL && strlen(belay_comm_id(comm)) == 32);
	RANK_EXPECT(seat,
		    belay_comm_rank(comm) == seat->rank && belay_comm_nranks(comm) == seat->nranks);
	still_works(seat);
}

static void refuse_endings(struct rank_seat *seat)
{
	struct belay_comm *comm = seat->comm;
	struct belay_unique_id id;
	uint64_t mask = 5;

	BAD(seat, belay_comm_survivors(NULL, 0, &mask, &id));
	BAD(seat, belay_comm_survivors(comm, 0, NULL, &id));
	BAD(seat, belay_comm_survivors(comm, 0, &mask, NULL));
	RANK_EXPECT_STATUS(seat, belay_comm_survivors(comm, 0, &mask, &id), BELAY_E_STATE);
	RANK_EXPECT(seat, mask == 5);
	BAD(seat, belay_comm_abort(NULL));
	RANK_EXPECT_STATUS(seat, belay_comm_destroy(NULL), 0);
	still_works(seat);
}

static void refuse_everything(struct rank_seat *seat)
{
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	refuse_calls(seat);
	seat->made++; /* its last, good call */
	refuse_passes(seat);
	refuse_buffers(seat);
	refuse_queries(seat);
	refuse_endings(seat);
	rank_destroy(seat);
}

FAULT_TEST(a_bad_argument_is_refused_and_the_communicator_works_on, "F64")
{
	struct rank_group group;

	run(_i ? 1 : 3, refuse_everything, &group);
	assert_all_well(&group);
}
END_TEST

/* ---- creation -------------------------------------------------------------------------------- */

static void refuse_creations(struct rank_seat *seat)
{
	struct belay_unique_id no_id = {{0}}, broken = seat->ids[0];
	struct belay_config small = BELAY_CONFIG_INIT, bad = BELAY_CONFIG_INIT;
	struct belay_comm *comm = NULL;

	small.size = 4;
	broken.bytes[127] ^= 1;
	broken.bytes[40] ^= 1;
	BAD(seat, belay_unique_id_create(NULL));
	BAD(seat, belay_comm_create(NULL, &seat->ids[0], 0, 1, &seat->config));
	BAD(seat, belay_comm_create(&comm, NULL, 0, 1, &seat->config));
	BAD(seat, belay_comm_create(&comm, &no_id, 0, 1, &seat->config));
	BAD(seat, belay_comm_create(&comm, &broken, 0, 1, &seat->config));
	BAD(seat, belay_comm_create(&comm, &seat->ids[0], -1, 1, &seat->config));
	BAD(seat, belay_comm_create(&comm, &seat->ids[0], 1, 1, &seat->config));
	BAD(seat, belay_comm_create(&comm, &seat->ids[0], 0, 0, &seat->config));
	BAD(seat, belay_comm_create(&comm, &seat->ids[0], 0, BELAY_RANKS_MAX + 1, &seat->config));
	BAD(seat, belay_comm_create(&comm, &seat->ids[0], 0, 1, &small));
	bad.first_seq = UINT64_MAX;
	BAD(seat, belay_comm_create(&comm, &seat->ids[0], 0, 1, &bad));
	BAD(seat, belay_comm_create_from_env(NULL, &seat->config));
	RANK_EXPECT_STATUS(seat, belay_comm_create_from_env(&comm, &seat->config), BELAY_E_SETTING);
	RANK_EXPECT(seat, !comm);
}

FAULT_TEST(a_bad_argument_of_a_creation_is_refused, "F64")
{
	struct rank_group group;

	run(1, refuse_creations, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 1);
}
END_TEST

static void set_badly(struct rank_seat *seat, size_t offset, const char *value, const char *name)
{
	struct belay_config config = seat->config;
	struct belay_comm *comm = NULL;

	memcpy((char *)&config + offset, &value, sizeof(value));
	RANK_EXPECT_STATUS(seat, belay_comm_create(&comm, &seat->ids[0], 0, 1, &config),
			   BELAY_E_SETTING);
	RANK_EXPECT(seat, !comm);
	if (!strstr(belay_last_error(), name) || !strstr(belay_last_error(), value))
		rank_complain(seat, __FILE__, __LINE__, belay_last_error(), 0);
}

#define SET_BADLY(seat, field, value, name)                                                        \
	set_badly(seat, offsetof(struct belay_config, field), value, name)

/* F17, F78: of each kind of setting, one line that names it and its value. */
static void set_everything_badly(struct rank_seat *seat)
{
	SET_BADLY(seat, late_ms, "5sec", "BELAY_LATE_MS");
	SET_BADLY(seat, late_ms, "-1", "BELAY_LATE_MS");
	SET_BADLY(seat, late_ms, "0", "BELAY_LATE_MS");
	SET_BADLY(seat, grace_ms, "nan", "BELAY_GRACE_MS");
	SET_BADLY(seat, give_up_ms, "99999999999999999999", "BELAY_GIVE_UP_MS");
	SET_BADLY(seat, give_up_ms, "1e3", "BELAY_GIVE_UP_MS");
	SET_BADLY(seat, warmup_give_up_ms, "0x10", "BELAY_WARMUP_GIVE_UP_MS");
	SET_BADLY(seat, start_ms, " ", "BELAY_START_MS");
	SET_BADLY(seat, destroy_ms, "10 s", "BELAY_DESTROY_MS");
	SET_BADLY(seat, heartbeat_ms, "0", "BELAY_HEARTBEAT_MS");
	SET_BADLY(seat, paths, "host,rign", "BELAY_PATHS");
	SET_BADLY(seat, symm_max, "1", "BELAY_SYMM_MAX");
	SET_BADLY(seat, symm_max, "2X", "BELAY_SYMM_MAX");
	SET_BADLY(seat, breaker, "3", "BELAY_BREAKER");
	SET_BADLY(seat, probe_ms, "soon", "BELAY_PROBE_MS");
	SET_BADLY(seat, log_level, "loud", "BELAY_LOG");
	SET_BADLY(seat, log_keep, "256M", "BELAY_LOG_KEEP");
	SET_BADLY(seat, buffer_max, "-4K", "BELAY_BUFFER_MAX");
	SET_BADLY(seat, fault, "kind=fire", "BELAY_FAULT");
}

FAULT_TEST(a_bad_setting_is_refused_and_named, "F17 F78")
{
	struct rank_group group;

	run(1, set_everything_badly, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 1);
}
END_TEST

/* ---- after a verdict ------------------------------------------------------------------------- */

static void ask_after_a_verdict(struct rank_seat *seat)
{
	struct belay_comm *comm;
	struct belay_unique_id id, again;
	uint64_t mask = 0, mask_again = 0;
	char text[2000] = "";
	void *buffer = NULL;
	size_t needed = 0;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	comm = seat->comm;
	still_works(seat);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(comm, NULL), 0);
	still_works(seat);
	if (seat->rank == 0)
		RANK_EXPECT_STATUS(seat, belay_comm_abort(comm), 0);
	rank_await_verdict(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_abort(comm), 0);
	RANK_EXPECT(seat, !rank_call(seat, 5));
	rank_meet_verdict(seat);
	/* The verdict came in call 3 or before call 2 was done everywhere; the pass ends
	 * accordingly, alike on all. */
	seat->report->outcome[0] = (int16_t)belay_pass_end(comm, NULL);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(comm, NULL), BELAY_E_ABORTED);
	RANK_EXPECT_STATUS(seat, belay_pass_end(comm, NULL), BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat, belay_comm_causes(comm, text, sizeof(text), &needed), 0);
	RANK_EXPECT(seat, strstr(text, "abort") && needed == strlen(text) + 1);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(comm, 100, &buffer), 0);
	RANK_EXPECT_STATUS(seat, belay_buffer_free(comm, buffer), 0);
	RANK_EXPECT_STATUS(seat, belay_comm_survivors(comm, UINT64_MAX, &mask, &id), 0);
	RANK_EXPECT_STATUS(seat, belay_comm_survivors(comm, 0, &mask_again, &again), 0);
	RANK_EXPECT(seat, mask == mask_again && memcmp(&id, &again, sizeof(id)) == 0);
	RANK_EXPECT(seat, mask == (UINT64_C(1) << seat->nranks) - 1);
	rank_destroy(seat);
}

START_TEST(after_a_verdict_queries_answer_and_the_rest_returns_it)
{
	struct rank_group group;

	run(3, ask_after_a_verdict, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 7);
	for (int r = 1; r < 3; r++)
		ck_assert_int_eq(group.report[r].outcome[0], group.report[0].outcome[0]);
}
END_TEST

/* Programs that were compiled before the config's last fields were added: what they say counts. */
static void start_as_an_older_program(struct rank_seat *seat)
{
	struct belay_health health = {.size = sizeof(health)};

	seat->config.size = offsetof(struct belay_config, device);
	seat->config.first_seq = 50;
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	still_works(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	RANK_EXPECT(seat, health.done_seq == 50);
	rank_destroy(seat);
}

START_TEST(the_config_of_an_older_program_counts)
{
	struct rank_group group;

	run(2, start_as_an_older_program, &group);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("arguments");
	TCase *c = tcase_create("arguments");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, a_bad_argument_is_refused_and_the_communicator_works_on, 0, 2);
	tcase_add_test(c, a_bad_argument_of_a_creation_is_refused);
	tcase_add_test(c, a_bad_setting_is_refused_and_named);
	tcase_add_test(c, the_config_of_an_older_program_counts);
	tcase_add_test(c, after_a_verdict_queries_answer_and_the_rest_returns_it);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
