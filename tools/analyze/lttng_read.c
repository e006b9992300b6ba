/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one LTTng trace with libbabeltrace2 and rebuilds the records from the events' fields, by
 * name: events, fields and providers that are not known are passed over. Runs in a process of its
 * own: see lttng_import.h.
 */
#include "config.h"

#include <babeltrace2/babeltrace.h>
#include <string.h>

#include "runtime/belay.h"
#include "tools/analyze/lttng_frame.h"
#include "trace/call_record.h"

#define CLASSES_MAX 64u
#define MEMBERS_MAX 64u

/* What a field of an event stands for. */
enum role {
	ROLE_NONE = 0,
	ROLE_COMM_HIGH,
	ROLE_COMM_LOW,
	ROLE_RANK,
	ROLE_NRANKS,
	ROLE_SEQ,
	ROLE_PASS,
	ROLE_INDEX,
	ROLE_OP,
	ROLE_DTYPE,
	ROLE_COUNT,
	ROLE_PATH,
	ROLE_ALGORITHM,
	ROLE_STATUS,
	ROLE_FLAGS,
	ROLE_ENQUEUE,
	ROLE_START,
	ROLE_STAGED,
	ROLE_END,
	ROLE_ARRIVALS,
	ROLE_MISSING,
	ROLE_DIGEST,
	ROLE_RESCUE_PATH,
	ROLE_RESCUE_NS,
	ROLE_TIME,
	ROLE_PEER,
	ROLE_DURATION,
	ROLE_VALUE,
	ROLE_CAUSE,
	ROLE_TEXT,
	ROLES
};

static const char *const role_names[ROLES] = {
	[ROLE_COMM_HIGH] = "comm_high",
	[ROLE_COMM_LOW] = "comm_low",
	[ROLE_RANK] = "rank",
	[ROLE_NRANKS] = "nranks",
	[ROLE_SEQ] = "seq",
	[ROLE_PASS] = "pass",
	[ROLE_INDEX] = "index",
	[ROLE_OP] = "op",
	[ROLE_DTYPE] = "dtype",
	[ROLE_COUNT] = "count",
	[ROLE_PATH] = "path",
	[ROLE_ALGORITHM] = "algorithm",
	[ROLE_STATUS] = "status",
	[ROLE_FLAGS] = "flags",
	[ROLE_ENQUEUE] = "t_enqueue_ns",
	[ROLE_START] = "t_start_ns",
	[ROLE_STAGED] = "t_staged_ns",
	[ROLE_END] = "t_end_ns",
	[ROLE_ARRIVALS] = "arrival_ns",
	[ROLE_MISSING] = "missing",
	[ROLE_DIGEST] = "digest",
	[ROLE_RESCUE_PATH] = "rescue_path",
	[ROLE_RESCUE_NS] = "rescue_ns",
	[ROLE_TIME] = "time_ns",
	[ROLE_PEER] = "peer",
	[ROLE_DURATION] = "duration_ns",
	[ROLE_VALUE] = "value",
	[ROLE_CAUSE] = "cause",
	[ROLE_TEXT] = "text",
};

/* An event mask is named as a call's is: `missing` there, `mask` here. */
#define MASK_NAME "mask"

#define NEEDED_ALWAYS                                                                              \
	(1ull << ROLE_COMM_HIGH | 1ull << ROLE_COMM_LOW | 1ull << ROLE_RANK | 1ull << ROLE_NRANKS)
#define NEEDED_IN_CALL	(NEEDED_ALWAYS | 1ull << ROLE_SEQ | 1ull << ROLE_START | 1ull << ROLE_END)
#define NEEDED_IN_EVENT (NEEDED_ALWAYS | 1ull << ROLE_TIME)

#define KIND_CALL    0
#define KIND_FOREIGN (-1)

static const char *const event_names[] = {
	[KIND_CALL] = "call",
	[EVENT_COMM_CREATE] = "comm_create",
	[EVENT_COMM_DESTROY] = "comm_destroy",
	[EVENT_PASS_BEGIN] = "pass_begin",
	[EVENT_PASS_END] = "pass_end",
	[EVENT_LATE] = "late",
	[EVENT_RESCUE_BEGIN] = "rescue_begin",
	[EVENT_RESCUE_END] = "rescue_end",
	[EVENT_BREAKER] = "breaker",
	[EVENT_PATH_SWITCH] = "path_switch",
	[EVENT_VERDICT] = "verdict",
	[EVENT_ERROR] = "error",
	[EVENT_CLOCK] = "clock",
};

#define EVENT_NAMES (sizeof(event_names) / sizeof(event_names[0]))

/* What is known of an event class once its first event has been met. */
struct known_class {
	const bt_event_class *class;
	int kind; /* KIND_CALL, enum event_kind or KIND_FOREIGN */
	uint64_t members;
	uint8_t roles[MEMBERS_MAX];
	bt_field_class_type types[MEMBERS_MAX];
};

/* One event's values. Integers are kept as 64 bits, whatever their sign. */
struct values {
	uint64_t seen; /* mask of roles */
	uint64_t numbers[ROLES];
	uint64_t narrivals;
	uint64_t arrivals[BELAY_RANKS_MAX];
	const char *text;
};

struct reader {
	FILE *frames;
	enum lttng_reading reading;
	bt_message_iterator *messages;
	struct known_class classes[CLASSES_MAX];
	size_t nclasses;
	uint64_t since_sign;
};

static void send(struct reader *reader, enum lttng_frame_kind kind, const struct values *values,
		 const void *payload, size_t bytes)
{
	struct lttng_frame frame = {.kind = kind, .bytes = (uint32_t)bytes};

	if (values) {
		frame.rank = (uint32_t)values->numbers[ROLE_RANK];
		frame.nranks = (uint32_t)values->numbers[ROLE_NRANKS];
		frame.comm_high = values->numbers[ROLE_COMM_HIGH];
		frame.comm_low = values->numbers[ROLE_COMM_LOW];
	}
	fwrite(&frame, sizeof(frame), 1, reader->frames);
	if (bytes)
		fwrite(payload, bytes, 1, reader->frames);
	reader->since_sign = 0;
}

/* Classes -------------------------------------------------------------------------------------- */

static int kind_of_name(const char *name)
{
	static const char provider[] = "belay:";

	if (!name || strncmp(name, provider, sizeof(provider) - 1) != 0)
		return KIND_FOREIGN;
	for (size_t i = 0; i < EVENT_NAMES; i++) {
		if (strcmp(name + sizeof(provider) - 1, event_names[i]) == 0)
			return (int)i;
	}
	return KIND_FOREIGN;
}

static enum role role_of_name(const char *name)
{
	for (int role = 1; role < ROLES; role++) {
		if (strcmp(name, role_names[role]) == 0)
			return (enum role)role;
	}
	return strcmp(name, MASK_NAME) == 0 ? ROLE_MISSING : ROLE_NONE;
}

static void learn_class(struct known_class *known, const bt_event_class *class)
{
	const bt_field_class *payload = bt_event_class_borrow_payload_field_class_const(class);

	known->class = class;
	known->kind = kind_of_name(bt_event_class_get_name(class));
	known->members = 0;
	if (known->kind == KIND_FOREIGN || !payload)
		return;
	known->members = bt_field_class_structure_get_member_count(payload);
	if (known->members > MEMBERS_MAX)
		known->members = MEMBERS_MAX;
	for (uint64_t i = 0; i < known->members; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(payload, i);

		known->roles[i] =
			(uint8_t)role_of_name(bt_field_class_structure_member_get_name(member));
		known->types[i] = bt_field_class_get_type(
			bt_field_class_structure_member_borrow_field_class_const(member));
	}
}

/* A trace has few classes; those past the table's end are learnt anew each time. */
static const struct known_class *class_of(struct reader *reader, const bt_event *event)
{
	const bt_event_class *class = bt_event_borrow_class_const(event);
	struct known_class *known;

	for (size_t i = 0; i < reader->nclasses; i++) {
		if (reader->classes[i].class == class)
			return &reader->classes[i];
	}
	if (reader->nclasses < CLASSES_MAX)
		reader->nclasses++;
	known = &reader->classes[reader->nclasses - 1];
	learn_class(known, class);
	return known;
}

/* Fields --------------------------------------------------------------------------------------- */

/* 1 and the value, if the field is an integer or an enumeration. */
static int integer_of(const bt_field *field, bt_field_class_type type, uint64_t *ret_value)
{
	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
		*ret_value = bt_field_integer_unsigned_get_value(field);
	else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		*ret_value = (uint64_t)bt_field_integer_signed_get_value(field);
	else
		return 0;
	return 1;
}

static void take_arrivals(struct values *values, const bt_field *field, bt_field_class_type type)
{
	if (!bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ARRAY))
		return;
	values->narrivals = bt_field_array_get_length(field);
	if (values->narrivals > BELAY_RANKS_MAX)
		values->narrivals = BELAY_RANKS_MAX;
	for (uint64_t i = 0; i < values->narrivals; i++) {
		const bt_field *element =
			bt_field_array_borrow_element_field_by_index_const(field, i);

		/* All elements are of one class. */
		if (i == 0)
			type = bt_field_get_class_type(element);
		if (!integer_of(element, type, &values->arrivals[i]))
			values->arrivals[i] = CALL_ARRIVAL_NONE;
	}
	values->seen |= 1ull << ROLE_ARRIVALS;
}

static void take_field(struct values *values, enum role role, const bt_field *field,
		       bt_field_class_type type)
{
	if (role == ROLE_ARRIVALS) {
		take_arrivals(values, field, type);
	} else if (role == ROLE_TEXT) {
		if (type == BT_FIELD_CLASS_TYPE_STRING)
			values->text = bt_field_string_get_value(field);
	} else if (integer_of(field, type, &values->numbers[role])) {
		values->seen |= 1ull << role;
	}
}

static void take_fields(struct values *values, const struct known_class *known,
			const bt_event *event)
{
	const bt_field *payload = bt_event_borrow_payload_field_const(event);

	values->seen = 0;
	values->narrivals = 0;
	values->text = "";
	memset(values->numbers, 0, sizeof(values->numbers));
	for (uint64_t i = 0; payload && i < known->members; i++) {
		if (known->roles[i] != ROLE_NONE)
			take_field(
				values, (enum role)known->roles[i],
				bt_field_structure_borrow_member_field_by_index_const(payload, i),
				known->types[i]);
	}
}

/* Records -------------------------------------------------------------------------------------- */

static uint32_t saturated(uint64_t value)
{
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* later - earlier, 0 when the order is wrong or a value is not there. */
static uint64_t between(const struct values *values, enum role earlier, enum role later)
{
	uint64_t from = values->numbers[earlier], to = values->numbers[later];

	if (!(values->seen & 1ull << earlier) || !(values->seen & 1ull << later))
		return 0;
	return to > from ? to - from : 0;
}

static void rebuild_call(struct call_record *record, const struct values *values)
{
	const uint64_t *numbers = values->numbers;

	*record = (struct call_record){
		.seq = numbers[ROLE_SEQ],
		.pass = numbers[ROLE_PASS],
		.start_ns = numbers[ROLE_START],
		.count = numbers[ROLE_COUNT],
		.duration_ns = between(values, ROLE_START, ROLE_END),
		.missing = numbers[ROLE_MISSING],
		.digest = numbers[ROLE_DIGEST],
		.rescue_ns = numbers[ROLE_RESCUE_NS],
		.index = (uint32_t)numbers[ROLE_INDEX],
		.enqueue_ns = saturated(between(values, ROLE_ENQUEUE, ROLE_START)),
		.staged_ns = saturated(between(values, ROLE_START, ROLE_STAGED)),
		.status = (int16_t)numbers[ROLE_STATUS],
		.flags = (uint16_t)numbers[ROLE_FLAGS],
		.op = (uint8_t)numbers[ROLE_OP],
		.dtype = (uint8_t)numbers[ROLE_DTYPE],
		.path = (uint8_t)numbers[ROLE_PATH],
		.algorithm = (uint8_t)numbers[ROLE_ALGORITHM],
		.rescue_path = (uint8_t)numbers[ROLE_RESCUE_PATH],
	};
}

static void send_call(struct reader *reader, const struct values *values)
{
	union {
		struct call_record record;
		unsigned char room[LTTNG_FRAME_BYTES_MAX];
	} made = {.room = {0}};
	uint64_t nranks = values->numbers[ROLE_NRANKS];

	rebuild_call(&made.record, values);
	for (uint64_t i = 0; i < nranks; i++)
		made.record.arrival_ns[i] =
			i < values->narrivals ? values->arrivals[i] : CALL_ARRIVAL_NONE;
	send(reader, LTTNG_FRAME_CALL, values, &made, call_record_stride((uint32_t)nranks));
}

static void send_event(struct reader *reader, int kind, const struct values *values)
{
	const uint64_t *numbers = values->numbers;
	struct event_record record = {
		.time_ns = numbers[ROLE_TIME],
		.seq = numbers[ROLE_SEQ],
		.pass = numbers[ROLE_PASS],
		.mask = numbers[ROLE_MISSING],
		.duration_ns = numbers[ROLE_DURATION],
		.value = (int64_t)numbers[ROLE_VALUE],
		.peer = values->seen & 1ull << ROLE_PEER ? (int32_t)numbers[ROLE_PEER] : -1,
		.status = (int16_t)numbers[ROLE_STATUS],
		.kind = (uint8_t)kind,
		.cause = (uint8_t)numbers[ROLE_CAUSE],
		.path = (uint8_t)numbers[ROLE_PATH],
	};

	(void)snprintf(record.text, sizeof(record.text), "%s", values->text);
	send(reader, LTTNG_FRAME_EVENT, values, &record, sizeof(record));
}

static void take_event(struct reader *reader, const bt_event *event)
{
	const struct known_class *known = class_of(reader, event);
	struct values values;
	uint64_t needed;

	if (known->kind == KIND_FOREIGN)
		return;
	take_fields(&values, known, event);
	needed = known->kind == KIND_CALL ? NEEDED_IN_CALL : NEEDED_IN_EVENT;
	if ((values.seen & needed) != needed || values.numbers[ROLE_NRANKS] > BELAY_RANKS_MAX ||
	    values.numbers[ROLE_RANK] >= values.numbers[ROLE_NRANKS])
		send(reader, LTTNG_FRAME_ODD, NULL, NULL, 0);
	else if (known->kind == KIND_CALL)
		send_call(reader, &values);
	else
		send_event(reader, known->kind, &values);
}

/* The graph ------------------------------------------------------------------------------------ */

static void count_packet(struct reader *reader, const bt_message *message)
{
	if (bt_message_get_type(message) != BT_MESSAGE_TYPE_PACKET_END)
		return;
	send(reader, LTTNG_FRAME_PACKET, NULL, NULL, 0);
	fflush(reader->frames); /* the next one may be the end of this process */
}

static void take_message(struct reader *reader, const bt_message *message)
{
	uint64_t count = 0;

	if (reader->since_sign++ >= LTTNG_MESSAGES_BETWEEN_SIGNS) {
		send(reader, LTTNG_FRAME_ALIVE, NULL, NULL, 0);
		fflush(reader->frames);
	}
	if (reader->reading == LTTNG_READ_PACKETS) {
		count_packet(reader, message);
		return;
	}
	switch (bt_message_get_type(message)) {
	case BT_MESSAGE_TYPE_EVENT:
		take_event(reader, bt_message_event_borrow_event_const(message));
		break;
	case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
		if (bt_message_discarded_events_get_count(message, &count) ==
		    BT_PROPERTY_AVAILABILITY_AVAILABLE)
			send(reader, LTTNG_FRAME_DISCARDED, NULL, &count, sizeof(count));
		break;
	default:
		break;
	}
}

static bt_graph_simple_sink_component_initialize_func_status
sink_begin(bt_message_iterator *messages, void *user)
{
	struct reader *reader = user;

	reader->messages = messages;
	return BT_GRAPH_SIMPLE_SINK_COMPONENT_INITIALIZE_FUNC_STATUS_OK;
}

static bt_graph_simple_sink_component_consume_func_status
sink_consume(bt_message_iterator *messages, void *user)
{
	struct reader *reader = user;
	bt_message_array_const list;
	uint64_t n = 0;

	switch (bt_message_iterator_next(messages, &list, &n)) {
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
		break;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_AGAIN;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_MEMORY_ERROR:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_MEMORY_ERROR;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_ERROR:
	default:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR;
	}
	for (uint64_t i = 0; i < n; i++) {
		take_message(reader, list[i]);
		bt_message_put_ref(list[i]);
	}
	return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
}

static const bt_plugin *find_plugin(const char *name)
{
	const bt_plugin *plugin = NULL;

	if (bt_plugin_find(name, BT_TRUE, BT_FALSE, BT_TRUE, BT_TRUE, BT_FALSE, &plugin) !=
	    BT_PLUGIN_FIND_STATUS_OK)
		return NULL;
	return plugin;
}

static int add_source(bt_graph *graph, const bt_plugin *plugin, const char *folder,
		      const bt_component_source **ret_source)
{
	const bt_component_class_source *class =
		bt_plugin_borrow_source_component_class_by_name_const(plugin, "fs");
	bt_value *parameters = bt_value_map_create();
	bt_value *list = NULL;
	int done = class && parameters &&
		   bt_value_map_insert_empty_array_entry(parameters, "inputs", &list) ==
			   BT_VALUE_MAP_INSERT_ENTRY_STATUS_OK &&
		   bt_value_array_append_string_element(list, folder) ==
			   BT_VALUE_ARRAY_APPEND_ELEMENT_STATUS_OK &&
		   bt_graph_add_source_component(graph, class, "trace", parameters,
						 BT_LOGGING_LEVEL_NONE,
						 ret_source) == BT_GRAPH_ADD_COMPONENT_STATUS_OK;

	bt_value_put_ref(parameters);
	return done;
}

/* A trace has a port for each stream; the muxer grows an input for each that is connected. */
static int connect_streams(bt_graph *graph, const bt_component_source *source,
			   const bt_component_filter *muxer)
{
	uint64_t n = bt_component_source_get_output_port_count(source);

	for (uint64_t i = 0; i < n; i++) {
		if (bt_graph_connect_ports(
			    graph, bt_component_source_borrow_output_port_by_index_const(source, i),
			    bt_component_filter_borrow_input_port_by_index_const(muxer, i),
			    NULL) != BT_GRAPH_CONNECT_PORTS_STATUS_OK)
			return 0;
	}
	return 1;
}

static int add_rest(bt_graph *graph, const bt_plugin *plugin, const bt_component_source *source,
		    struct reader *reader)
{
	const bt_component_class_filter *class =
		bt_plugin_borrow_filter_component_class_by_name_const(plugin, "muxer");
	const bt_component_filter *muxer = NULL;
	const bt_component_sink *sink = NULL;

	return class &&
	       bt_graph_add_filter_component(graph, class, "order", NULL, BT_LOGGING_LEVEL_NONE,
					     &muxer) == BT_GRAPH_ADD_COMPONENT_STATUS_OK &&
	       connect_streams(graph, source, muxer) &&
	       bt_graph_add_simple_sink_component(graph, "records", sink_begin, sink_consume, NULL,
						  reader,
						  &sink) == BT_GRAPH_ADD_COMPONENT_STATUS_OK &&
	       bt_graph_connect_ports(
		       graph, bt_component_filter_borrow_output_port_by_index_const(muxer, 0),
		       bt_component_sink_borrow_input_port_by_index_const(sink, 0),
		       NULL) == BT_GRAPH_CONNECT_PORTS_STATUS_OK;
}

static int run(bt_graph *graph, struct reader *reader)
{
	bt_graph_run_status status;

	send(reader, LTTNG_FRAME_OPENED, NULL, NULL, 0);

	do
		status = bt_graph_run(graph);
	while (status == BT_GRAPH_RUN_STATUS_AGAIN);
	return status == BT_GRAPH_RUN_STATUS_OK;
}

/* The first of libbabeltrace2's causes is where it went wrong; later ones only pass it on. */
static void send_problem(struct reader *reader, const char *otherwise)
{
	const bt_error *error = bt_current_thread_take_error();
	const char *text = otherwise;
	size_t bytes;

	if (error && bt_error_get_cause_count(error))
		text = bt_error_cause_get_message(bt_error_borrow_cause_by_index(error, 0));
	bytes = strlen(text) + 1;
	if (bytes > LTTNG_FRAME_BYTES_MAX)
		bytes = LTTNG_FRAME_BYTES_MAX;
	send(reader, LTTNG_FRAME_PROBLEM, NULL, text, bytes);
	if (error)
		bt_error_release(error);
}

/* The process ends after this: what the graph and the plugins hold goes with it. */
void lttng_read_trace(const char *folder, enum lttng_reading reading, FILE *frames)
{
	static struct reader reader;
	const bt_plugin *ctf = find_plugin("ctf"), *utils = find_plugin("utils");
	const bt_component_source *source = NULL;
	bt_graph *graph = bt_graph_create(0);

	reader.frames = frames;
	reader.reading = reading;
	if (!ctf || !utils || !graph)
		send_problem(&reader, "libbabeltrace2 lacks its plugins ctf and utils");
	else if (!add_source(graph, ctf, folder, &source))
		send_problem(&reader, "libbabeltrace2 cannot open it");
	else if (bt_component_source_get_output_port_count(source) == 0)
		send(&reader, LTTNG_FRAME_END, NULL, NULL, 0);
	else if (!add_rest(graph, utils, source, &reader))
		send_problem(&reader, "libbabeltrace2 cannot set up its graph");
	else if (!run(graph, &reader))
		send_problem(&reader, "libbabeltrace2 stopped reading");
	else
		send(&reader, LTTNG_FRAME_END, NULL, NULL, 0);
	fflush(frames);
}
