/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off: the tables of fields are laid out by hand */
/*
 * The LTTng-UST provider "belay". Names of events, fields and enum labels are an interface,
 * docs/tracepoints.md: tools and people's scripts read them. Every event holds what its record
 * holds, so that the record can be had back from it.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER belay

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "trace/tracepoints.h"

#if !defined(BELAY_TRACE_TRACEPOINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BELAY_TRACE_TRACEPOINTS_H

#include <lttng/tracepoint.h>

#include "trace/call_record.h"
#include "trace/trace_identity.h"

/* clang-format off */

/* Labels are what belay_status_name() and its like print; values are those of runtime/belay.h. */
LTTNG_UST_TRACEPOINT_ENUM(belay, op,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("sum", 1)
		lttng_ust_field_enum_value("max", 2)
		lttng_ust_field_enum_value("min", 3)
		lttng_ust_field_enum_value("prod", 4)
		lttng_ust_field_enum_value("avg", 5)
		lttng_ust_field_enum_value("user", 6)
		lttng_ust_field_enum_value("allgather", 16)
		lttng_ust_field_enum_value("reduce-scatter", 17)
		lttng_ust_field_enum_value("broadcast", 18)
		lttng_ust_field_enum_value("reduce", 19)
		lttng_ust_field_enum_value("alltoall", 20)
		lttng_ust_field_enum_value("gather", 21)
		lttng_ust_field_enum_value("scatter", 22)))

LTTNG_UST_TRACEPOINT_ENUM(belay, dtype,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("f32", 1)
		lttng_ust_field_enum_value("f64", 2)
		lttng_ust_field_enum_value("f16", 3)
		lttng_ust_field_enum_value("bf16", 4)
		lttng_ust_field_enum_value("i32", 5)
		lttng_ust_field_enum_value("i64", 6)
		lttng_ust_field_enum_value("u8", 7)
		lttng_ust_field_enum_value("i8", 8)
		lttng_ust_field_enum_value("u32", 9)
		lttng_ust_field_enum_value("u64", 10)
		lttng_ust_field_enum_value("f8e4m3", 11)
		lttng_ust_field_enum_value("f8e5m2", 12)))

LTTNG_UST_TRACEPOINT_ENUM(belay, path,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("none", 0)
		lttng_ust_field_enum_value("symm", 1)
		lttng_ust_field_enum_value("nccl", 2)
		lttng_ust_field_enum_value("host", 3)
		lttng_ust_field_enum_value("ring", 4)))

LTTNG_UST_TRACEPOINT_ENUM(belay, algorithm,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("none", 0)
		lttng_ust_field_enum_value("oneshot", 1)
		lttng_ust_field_enum_value("twoshot", 2)
		lttng_ust_field_enum_value("twoshot-pull", 3)
		lttng_ust_field_enum_value("island", 4)
		lttng_ust_field_enum_value("gather", 5)))

LTTNG_UST_TRACEPOINT_ENUM(belay, cause,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("none", 0)
		lttng_ust_field_enum_value("peer_lost", 1)
		lttng_ust_field_enum_value("peer_stuck", 2)
		lttng_ust_field_enum_value("mismatch", 3)
		lttng_ust_field_enum_value("gpu_fault", 4)
		lttng_ust_field_enum_value("nccl_failed", 5)
		lttng_ust_field_enum_value("aborted", 6)
		lttng_ust_field_enum_value("internal", 7)))

LTTNG_UST_TRACEPOINT_ENUM(belay, status,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("BELAY_OK", 0)
		lttng_ust_field_enum_value("BELAY_E_ARGUMENT", -100)
		lttng_ust_field_enum_value("BELAY_E_BUSY", -101)
		lttng_ust_field_enum_value("BELAY_E_SETTING", -102)
		lttng_ust_field_enum_value("BELAY_E_UNSUPPORTED", -103)
		lttng_ust_field_enum_value("BELAY_E_FORKED", -104)
		lttng_ust_field_enum_value("BELAY_E_STATE", -105)
		lttng_ust_field_enum_value("BELAY_E_NO_MEMORY", -200)
		lttng_ust_field_enum_value("BELAY_E_SYSTEM", -201)
		lttng_ust_field_enum_value("BELAY_E_LIMIT", -202)
		lttng_ust_field_enum_value("BELAY_E_START_TIMEOUT", -300)
		lttng_ust_field_enum_value("BELAY_E_REFUSED", -301)
		lttng_ust_field_enum_value("BELAY_E_NO_PATH", -302)
		lttng_ust_field_enum_value("BELAY_E_TIMEOUT", -303)
		lttng_ust_field_enum_value("BELAY_E_PEER_LOST", -400)
		lttng_ust_field_enum_value("BELAY_E_PEER_STUCK", -401)
		lttng_ust_field_enum_value("BELAY_E_MISMATCH", -402)
		lttng_ust_field_enum_value("BELAY_E_GPU_FAULT", -403)
		lttng_ust_field_enum_value("BELAY_E_NCCL_FAILED", -404)
		lttng_ust_field_enum_value("BELAY_E_ABORTED", -405)
		lttng_ust_field_enum_value("BELAY_E_INTERNAL", -406)))

/* belay:call, once for each call, when it has ended. */
LTTNG_UST_TRACEPOINT_EVENT(belay, call,
	LTTNG_UST_TP_ARGS(
		const struct trace_identity *, identity,
		const struct call_record *, record),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer_hex(uint64_t, comm_high, identity->comm_high)
		lttng_ust_field_integer_hex(uint64_t, comm_low, identity->comm_low)
		lttng_ust_field_integer(uint32_t, rank, identity->rank)
		lttng_ust_field_integer(uint32_t, nranks, identity->nranks)
		lttng_ust_field_integer(uint64_t, seq, record->seq)
		lttng_ust_field_integer(uint64_t, pass, record->pass)
		lttng_ust_field_integer(uint32_t, index, record->index)
		lttng_ust_field_enum(belay, op, uint8_t, op, record->op)
		lttng_ust_field_enum(belay, dtype, uint8_t, dtype, record->dtype)
		lttng_ust_field_integer(uint64_t, count, record->count)
		lttng_ust_field_enum(belay, path, uint8_t, path, record->path)
		lttng_ust_field_enum(belay, algorithm, uint8_t, algorithm, record->algorithm)
		lttng_ust_field_enum(belay, status, int16_t, status, record->status)
		lttng_ust_field_integer_hex(uint16_t, flags, record->flags)
		lttng_ust_field_integer(uint64_t, t_enqueue_ns, record->start_ns - record->enqueue_ns)
		lttng_ust_field_integer(uint64_t, t_start_ns, record->start_ns)
		lttng_ust_field_integer(uint64_t, t_staged_ns, record->start_ns + record->staged_ns)
		lttng_ust_field_integer(uint64_t, t_end_ns, record->start_ns + record->duration_ns)
		lttng_ust_field_sequence(uint64_t, arrival_ns, record->arrival_ns, uint32_t, identity->nranks)
		lttng_ust_field_integer_hex(uint64_t, missing, record->missing)
		lttng_ust_field_integer_hex(uint64_t, digest, record->digest)
		lttng_ust_field_enum(belay, path, uint8_t, rescue_path, record->rescue_path)
		lttng_ust_field_integer(uint64_t, rescue_ns, record->rescue_ns)))
LTTNG_UST_TRACEPOINT_LOGLEVEL(belay, call, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

/* All others have one layout, that of struct event_record; which field means what in which event: docs/tracepoints.md. */
LTTNG_UST_TRACEPOINT_EVENT_CLASS(belay, happening,
	LTTNG_UST_TP_ARGS(
		const struct trace_identity *, identity,
		const struct event_record *, event),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer_hex(uint64_t, comm_high, identity->comm_high)
		lttng_ust_field_integer_hex(uint64_t, comm_low, identity->comm_low)
		lttng_ust_field_integer(uint32_t, rank, identity->rank)
		lttng_ust_field_integer(uint32_t, nranks, identity->nranks)
		lttng_ust_field_integer(uint64_t, time_ns, event->time_ns)
		lttng_ust_field_integer(uint64_t, seq, event->seq)
		lttng_ust_field_integer(uint64_t, pass, event->pass)
		lttng_ust_field_integer(int32_t, peer, event->peer)
		lttng_ust_field_integer_hex(uint64_t, mask, event->mask)
		lttng_ust_field_integer(uint64_t, duration_ns, event->duration_ns)
		lttng_ust_field_integer(int64_t, value, event->value)
		lttng_ust_field_enum(belay, status, int16_t, status, event->status)
		lttng_ust_field_enum(belay, cause, uint8_t, cause, event->cause)
		lttng_ust_field_enum(belay, path, uint8_t, path, event->path)
		lttng_ust_field_string(text, event->text)))

#define BELAY_HAPPENING(name, level)                                                               \
	LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(belay, happening, belay, name,                         \
		LTTNG_UST_TP_ARGS(                                                                 \
			const struct trace_identity *, identity,                                   \
			const struct event_record *, event))                                       \
	LTTNG_UST_TRACEPOINT_LOGLEVEL(belay, name, level)

BELAY_HAPPENING(comm_create, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)
BELAY_HAPPENING(comm_destroy, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)
BELAY_HAPPENING(pass_begin, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)
BELAY_HAPPENING(pass_end, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)
BELAY_HAPPENING(late, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
BELAY_HAPPENING(rescue_begin, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
BELAY_HAPPENING(rescue_end, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
BELAY_HAPPENING(breaker, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
BELAY_HAPPENING(path_switch, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
BELAY_HAPPENING(verdict, LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR)
BELAY_HAPPENING(error, LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR)
BELAY_HAPPENING(clock, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

/* clang-format on */

#endif /* BELAY_TRACE_TRACEPOINTS_H */

#include <lttng/tracepoint-event.h>
