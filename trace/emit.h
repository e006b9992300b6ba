/* SPDX-License-Identifier: Apache-2.0 */
/* Records to LTTng events. Nothing where belay is built without LTTng-UST; one load and branch
 * where no session listens. */
#ifndef BELAY_TRACE_EMIT_H
#define BELAY_TRACE_EMIT_H

#include "config.h"

#include "trace/call_record.h"
#include "trace/trace_identity.h"

#ifdef HAVE_LTTNG_UST

#include "trace/tracepoints.h"

static inline void emit_call(const struct trace_identity *identity,
			     const struct call_record *record)
{
	lttng_ust_tracepoint(belay, call, identity, record);
}

static inline void emit_event(const struct trace_identity *identity,
			      const struct event_record *event)
{
	switch ((enum event_kind)event->kind) {
	case EVENT_COMM_CREATE:
		lttng_ust_tracepoint(belay, comm_create, identity, event);
		break;
	case EVENT_COMM_DESTROY:
		lttng_ust_tracepoint(belay, comm_destroy, identity, event);
		break;
	case EVENT_PASS_BEGIN:
		lttng_ust_tracepoint(belay, pass_begin, identity, event);
		break;
	case EVENT_PASS_END:
		lttng_ust_tracepoint(belay, pass_end, identity, event);
		break;
	case EVENT_LATE:
		lttng_ust_tracepoint(belay, late, identity, event);
		break;
	case EVENT_RESCUE_BEGIN:
		lttng_ust_tracepoint(belay, rescue_begin, identity, event);
		break;
	case EVENT_RESCUE_END:
		lttng_ust_tracepoint(belay, rescue_end, identity, event);
		break;
	case EVENT_BREAKER:
		lttng_ust_tracepoint(belay, breaker, identity, event);
		break;
	case EVENT_PATH_SWITCH:
		lttng_ust_tracepoint(belay, path_switch, identity, event);
		break;
	case EVENT_VERDICT:
		lttng_ust_tracepoint(belay, verdict, identity, event);
		break;
	case EVENT_ERROR:
		lttng_ust_tracepoint(belay, error, identity, event);
		break;
	case EVENT_CLOCK:
		lttng_ust_tracepoint(belay, clock, identity, event);
		break;
	}
}

#else

static inline void emit_call(const struct trace_identity *identity,
			     const struct call_record *record)
{
	(void)identity;
	(void)record;
}

static inline void emit_event(const struct trace_identity *identity,
			      const struct event_record *event)
{
	(void)identity;
	(void)event;
}

#endif

#endif /* BELAY_TRACE_EMIT_H */
