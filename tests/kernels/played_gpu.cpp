/* SPDX-License-Identifier: Apache-2.0 */
/* See played_gpu.h. */
#include "tests/kernels/played_gpu.h"

#include <setjmp.h>
#include <ucontext.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

enum {
	WARPS_MAX = 18,
	BARRIERS = 16,
	STACK_BYTES = 65536,
	PENDING_MAX = 96,   /* stores of a block that wait */
	STEPS_MAX = 500000, /* of a run */
	FUEL_MAX = 60,	    /* basic blocks between two switches */
	HELD_MAX = 2000	    /* steps for which a warp may be held back */
};

/* A fiber waits until the counter has moved on. */
struct fiber {
	struct running *kernel;
	struct block_run *block;
	uint32_t thread;
	bool started, ended;
	bool after_last;	   /* has waited for the kernel before */
	const uint32_t *waits_for; /* NULL: nothing */
	uint32_t waits_past;
	std::unique_ptr<char[]> stack;
	jmp_buf at;
	uint64_t lanes[32]; /* what the last collective brought */
};

struct warp_run {
	uint32_t arrived, round, ended, kind;
	uint64_t mine[32], all[32];
};

struct barrier_run {
	uint32_t arrived, round;
};

/* Bytes that arrive together. */
struct pending_store {
	char *to;
	uint32_t bytes;
	char data[8];
};

struct block_run {
	uint32_t number;
	warp_run warp[WARPS_MAX];
	barrier_run barrier[BARRIERS];
	std::vector<char> shared;
	std::vector<pending_store> pending;
	/* A warp that is held back while the others go on: nothing but barriers waits for a warp.
	 */
	uint32_t held, held_from, held_until; /* until: steps of the run; 0: none */
};

struct running {
	played_kernel kernel;
	std::vector<char> parameter;
	std::vector<block_run> blocks;
	std::vector<fiber> fibers; /* empty before it begins */
	uint32_t live;
};

struct range {
	char *begin, *end;
};

static struct {
	uint64_t random, ticks;
	enum played_mutation mutation;
	const char *failure;
	const char *lose; /* NULL: nothing */
	fiber *current;
	block_run *loaded; /* whose shared memory stands in `shared` */
	char *shared;
	size_t shared_bytes;
	uint32_t fuel, step;
	jmp_buf scheduler;
	std::vector<range> allowed;
	std::vector<std::deque<std::unique_ptr<running>>> streams;
	std::vector<std::unique_ptr<char[]>> stacks; /* to be used again */
} gpu;

/* ---- the seed, and what goes wrong -------------------------------------------------------------
 */

uint64_t played_random(uint64_t below)
{
	gpu.random ^= gpu.random << 13;
	gpu.random ^= gpu.random >> 7;
	gpu.random ^= gpu.random << 17;
	return (gpu.random >> 11) % below;
}

const char *played_failure(void)
{
	return gpu.failure;
}

void played_lose(const void *at)
{
	gpu.lose = (const char *)at;
}

void played_fail(const char *what)
{
	if (!gpu.failure[0])
		gpu.failure = what;
}

/* ---- fibers ------------------------------------------------------------------------------------
 */

/* To the scheduler, and back when it chooses this fiber again. */
static void switch_out(void)
{
	fiber *self = gpu.current;

	if (!_setjmp(self->at))
		_longjmp(gpu.scheduler, 1);
	gpu.current = self;
}

static void wait_past(const uint32_t *counter, uint32_t value)
{
	while (*counter == value) {
		gpu.current->waits_for = counter;
		gpu.current->waits_past = value;
		switch_out();
	}
	gpu.current->waits_for = nullptr;
}

/* The compiler puts a call of this into every basic block of the kernels. */
extern "C" void __sanitizer_cov_trace_pc(void);
extern "C" void __sanitizer_cov_trace_pc(void)
{
	if (gpu.current && gpu.fuel-- == 0)
		switch_out();
}

/* The first function of a fiber; never returns. */
static void fiber_main(void)
{
	fiber *self = gpu.current;
	warp_run *warp = &self->block->warp[self->thread / 32];

	self->kernel->kernel.call(self->kernel->kernel.function, self->kernel->parameter.data());
	self->ended = true;
	self->kernel->live--;
	warp->ended++;
	if (warp->arrived)
		played_fail("a thread ends while its warp waits for it");
	_longjmp(gpu.scheduler, 1);
}

static void start_fiber(fiber *f)
{
	static ucontext_t here;
	ucontext_t first;

	f->started = true;
	getcontext(&first);
	first.uc_stack.ss_sp = f->stack.get();
	first.uc_stack.ss_size = STACK_BYTES;
	first.uc_link = nullptr;
	makecontext(&first, fiber_main, 0);
	swapcontext(&here, &first);
}

/* The shared memory of the block comes into the one place that the kernels know. */
static void load_shared(block_run *block)
{
	if (gpu.loaded == block)
		return;
	if (gpu.loaded)
		memcpy(gpu.loaded->shared.data(), gpu.shared, gpu.shared_bytes);
	memcpy(gpu.shared, block->shared.data(), gpu.shared_bytes);
	gpu.loaded = block;
}

static void run_fiber(fiber *f)
{
	if (f->ended || (f->waits_for && *f->waits_for == f->waits_past))
		return;
	load_shared(f->block);
	gpu.fuel = 1 + (uint32_t)played_random(FUEL_MAX);
	gpu.current = f;
	if (!_setjmp(gpu.scheduler)) {
		if (f->started)
			_longjmp(f->at, 1);
		start_fiber(f);
	}
	gpu.current = nullptr;
}

/* ---- memory ------------------------------------------------------------------------------------
 */

static bool is_allowed(const char *at, uint32_t bytes)
{
	for (const range &r : gpu.allowed)
		if (at >= r.begin && at + bytes <= r.end)
			return true;
	return false;
}

static bool overlap(const pending_store &store, const char *at, uint32_t bytes)
{
	return store.to < at + bytes && at < store.to + store.bytes;
}

/* Store i lands, after those before it that go to the same place. */
static void land(std::vector<pending_store> &pending, size_t i)
{
	pending_store store = pending[i];

	for (size_t k = 0; k < i; k++)
		if (overlap(pending[k], store.to, store.bytes)) {
			land(pending, k);
			land(pending, i - 1);
			return;
		}
	memcpy(store.to, store.data, store.bytes);
	pending.erase(pending.begin() + (ptrdiff_t)i);
}

static void land_all(std::vector<pending_store> &pending)
{
	for (const pending_store &store : pending)
		memcpy(store.to, store.data, store.bytes);
	pending.clear();
}

static void land_some(std::vector<pending_store> &pending)
{
	for (uint64_t n = played_random(4); n > 0 && !pending.empty(); n--)
		land(pending, played_random(pending.size()));
}

/* S6: as if every launch were programmatic, so that the kernel before may still be running. */
void played_wait_for_last(void)
{
	gpu.current->after_last = gpu.mutation != MUTATION_NO_WAIT;
}

static void touch_memory(void)
{
	if (!gpu.current->after_last)
		played_fail("memory is touched before the kernel before has ended (S6)");
}

void played_store(void *to, const void *from, uint32_t bytes, uint32_t whole)
{
	std::vector<pending_store> &pending = gpu.current->block->pending;
	uint32_t size = gpu.mutation == MUTATION_TORN && whole == 8 ? 4 : whole;

	touch_memory();
	if ((uintptr_t)to % bytes)
		played_fail("a store is misaligned");
	if (!is_allowed((char *)to, bytes)) {
		played_fail("a store is out of bounds");
		return;
	}
	if (gpu.lose >= (const char *)to && gpu.lose < (const char *)to + bytes) {
		gpu.lose = nullptr;
		return;
	}
	for (uint32_t at = 0; at < bytes; at += size) {
		pending_store store = {(char *)to + at, size, {}};

		memcpy(store.data, (const char *)from + at, size);
		pending.push_back(store);
	}
	while (pending.size() > PENDING_MAX)
		land(pending, played_random(pending.size()));
}

/* What stands in memory, and over it what the own block has on its way. */
void played_load(const void *from, void *ret_to, uint32_t bytes)
{
	const char *at = (const char *)from;

	touch_memory();
	if ((uintptr_t)from % bytes) {
		played_fail("a load is misaligned");
		return;
	}
	memcpy(ret_to, from, bytes);
	for (const pending_store &store : gpu.current->block->pending)
		for (uint32_t i = 0; i < store.bytes && overlap(store, at, bytes); i++)
			if (store.to + i >= at && store.to + i < at + bytes)
				((char *)ret_to)[store.to + i - at] = store.data[i];
}

void played_settle(const void *at, uint32_t bytes)
{
	std::vector<pending_store> &pending = gpu.current->block->pending;

	touch_memory();
	for (size_t i = 0; i < pending.size();)
		if (overlap(pending[i], (const char *)at, bytes)) {
			land(pending, i);
			i = 0;
		} else {
			i++;
		}
}

void played_fence(void)
{
	if (gpu.mutation != MUTATION_NO_FENCES)
		land_all(gpu.current->block->pending);
}

/* ---- threads -----------------------------------------------------------------------------------
 */

uint32_t played_thread(void)
{
	return gpu.current->thread;
}

uint32_t played_block(void)
{
	return gpu.current->block->number;
}

uint32_t played_threads(void)
{
	return gpu.current->kernel->kernel.threads;
}

uint32_t played_blocks(void)
{
	return gpu.current->kernel->kernel.blocks;
}

uint64_t played_ticks(void)
{
	return gpu.ticks;
}

void played_pause(void)
{
	switch_out();
}

const uint64_t *played_collect(enum played_collective kind, uint64_t mine)
{
	fiber *self = gpu.current;
	warp_run *warp = &self->block->warp[self->thread / 32];
	uint32_t round = warp->round;

	if (warp->arrived == 0)
		warp->kind = kind;
	if (warp->kind != (uint32_t)kind)
		played_fail("the lanes of a warp are at different collectives");
	if (warp->ended)
		played_fail("a collective of a warp of which a lane has ended");
	warp->mine[self->thread % 32] = mine;
	if (++warp->arrived == 32) {
		memcpy(warp->all, warp->mine, sizeof(warp->all));
		warp->arrived = 0;
		warp->round++;
	}
	wait_past(&warp->round, round);
	memcpy(self->lanes, warp->all, sizeof(self->lanes));
	return self->lanes;
}

void played_barrier(uint32_t barrier, uint32_t threads, bool wait)
{
	barrier_run *b = &gpu.current->block->barrier[barrier];
	uint32_t round = b->round;

	if (++b->arrived == threads) {
		b->arrived = 0;
		b->round++;
	}
	if (wait && (gpu.mutation != MUTATION_NO_BARRIERS || barrier == 0))
		wait_past(&b->round, round);
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

void played_shared(void *at, size_t bytes)
{
	gpu.shared = (char *)at;
	gpu.shared_bytes = bytes;
}

void played_allow(void *at, size_t bytes)
{
	gpu.allowed.push_back({(char *)at, (char *)at + bytes});
}

void played_launch(uint32_t stream, const struct played_kernel &kernel)
{
	std::unique_ptr<running> run(new running());
	const char *parameter = (const char *)kernel.parameter;

	run->kernel = kernel;
	run->parameter.assign(parameter, parameter + kernel.parameter_bytes);
	gpu.streams[stream].push_back(std::move(run));
}

static std::unique_ptr<char[]> take_stack(void)
{
	std::unique_ptr<char[]> stack;

	if (gpu.stacks.empty())
		return std::unique_ptr<char[]>(new char[STACK_BYTES]);
	stack = std::move(gpu.stacks.back());
	gpu.stacks.pop_back();
	return stack;
}

/* In every other block some warp, for a time that is more than a short turn takes. */
static void choose_held(block_run *block, uint32_t warps)
{
	if (played_random(2))
		return;
	block->held = (uint32_t)played_random(warps);
	block->held_from = gpu.step + (uint32_t)played_random(HELD_MAX / 20);
	block->held_until = block->held_from + (uint32_t)played_random(HELD_MAX);
}

static bool is_held(const fiber &f)
{
	const block_run &block = *f.block;

	return f.thread / 32 == block.held && gpu.step >= block.held_from &&
	       gpu.step < block.held_until;
}

/* Shared memory begins with whatever stood there. */
static void begin_kernel(running *run)
{
	const played_kernel &kernel = run->kernel;

	run->blocks.resize(kernel.blocks);
	run->fibers.resize((size_t)kernel.blocks * kernel.threads);
	run->live = (uint32_t)run->fibers.size();
	for (uint32_t b = 0; b < kernel.blocks; b++) {
		run->blocks[b].number = b;
		run->blocks[b].shared.assign(gpu.shared_bytes, (char)0xcd);
		choose_held(&run->blocks[b], kernel.threads / 32);
	}
	for (size_t i = 0; i < run->fibers.size(); i++) {
		fiber *f = &run->fibers[i];

		f->kernel = run;
		f->block = &run->blocks[i / kernel.threads];
		f->thread = (uint32_t)(i % kernel.threads);
		f->stack = take_stack();
	}
}

static void end_kernel(running *run)
{
	for (fiber &f : run->fibers)
		gpu.stacks.push_back(std::move(f.stack));
	for (block_run &block : run->blocks) {
		land_all(block.pending);
		for (const barrier_run &b : block.barrier)
			if (b.arrived)
				played_fail("a barrier is left with arrivals");
		if (gpu.loaded == &block)
			gpu.loaded = nullptr;
	}
}

/* Some warps, beginning with any. */
static void step_kernel(running *run)
{
	size_t warps = run->fibers.size() / 32;
	size_t first = played_random(warps), some = 1 + played_random(warps);

	for (size_t w = 0; w < some; w++) {
		fiber *warp = &run->fibers[(first + w) % warps * 32];

		if (is_held(warp[0]))
			continue;
		for (size_t lane = 0; lane < 32 && !gpu.failure[0]; lane++)
			run_fiber(&warp[lane]);
	}
	for (block_run &block : run->blocks)
		land_some(block.pending);
}

static void step_stream(std::deque<std::unique_ptr<running>> &stream)
{
	running *run = stream.front().get();

	if (run->fibers.empty()) {
		if (played_random(20) == 0)
			begin_kernel(run);
		return;
	}
	step_kernel(run);
	if (run->live == 0) {
		end_kernel(run);
		stream.pop_front();
	}
}

bool played_run(const std::function<void()> &host)
{
	for (gpu.step = 0; gpu.step < STEPS_MAX && !gpu.failure[0]; gpu.step++) {
		bool idle = true;

		gpu.ticks += played_random(1000);
		for (auto &stream : gpu.streams)
			if (!stream.empty()) {
				idle = false;
				step_stream(stream);
			}
		if (idle)
			return true;
		host();
	}
	played_fail("it does not come to an end");
	return false;
}

void played_begin(uint64_t seed, uint32_t streams, enum played_mutation mutation)
{
	gpu.random = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(88172645463325252);
	gpu.ticks = UINT64_C(1000000000);
	gpu.mutation = mutation;
	gpu.failure = "";
	gpu.lose = nullptr;
	gpu.current = nullptr;
	gpu.loaded = nullptr;
	gpu.allowed.clear();
	gpu.streams.clear();
	gpu.streams.resize(streams);
}
