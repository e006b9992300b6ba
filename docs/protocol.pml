/* SPDX-License-Identifier: Apache-2.0 */
/*
 * belay: staging, push, two-shot results, late, lost and delayed data, rescue with enrolment and
 * donation, two-step verdict, pass commit, breaker and path switch. Rules as in protocol.md;
 * tools/model.sh has the configurations.
 *
 *   N        ranks, 2 or 3                    MAXC  crashes, of the ranks in the mask CPIN
 *   S        turns                            MAXL  lost writes   } of the pairs source * N +
 *   PASS1    last turn of the first pass;     MAXD  delayed ones  } destination in the mask PPIN
 *   PASS2    of the second, 0: never ended    MAXB  changes of path that the breaker may want
 *   TWOSHOT  results are pushed as well, into users' buffers (R4)
 *   LEAVE    ranks destroy the communicator after turn S (C3); else their watchers stay
 *   GIVEUP   the hard deadline may end at any time; without it only deaths give verdicts, and so a
 *            wait that neither rescue nor verdict ends is an invalid end state
 *
 * Each of these takes one rule away:
 *   ASWRITTEN     V4: a proposal counts as a verdict at once; only its proposer withdraws it
 *   NOREREAD      V3: a proposal is decided without a second step
 *   NOWITHDRAW    V3: a proposal is never withdrawn
 *   NOHELP        V3: only the proposer takes the second step
 *   PLAINSTEP2    V3: the second step is a store, not a swap
 *   RESETWORD     V1: a withdrawn verdict word forgets its turn
 *   OWNSEQ        V2: a proposal names the turn its proposer waits in
 *   VERDICTATONCE V5: a death gives a verdict at once above turns that are still open
 *   GOON          V6: a rank that gave up goes on with the next turn
 *   COMMITANY     C1: any verdict fails a pass, also one above its last turn
 *   DEADDONE      L3: a dead rank counts by its done word alone
 *   HALFSTAGED    L3, P3: a dead rank's input is taken whether it was staged or not
 *   BEGINEARLY    R1: a rescue begins before all have staged
 *   STALEJOIN     R1: a watcher joins a rescue that is over
 *   ANYPART       R1: a part is not compared with the turn
 *   ONEATTEMPT    R1: a member's death does not call for the next attempt
 *   ONLYSTUCK     R1: ranks that are done do not join
 *   NOACK         R2: the watcher writes an output that the calling thread has not abandoned
 *   LATEENDS      R3: late data ends a turn that was abandoned
 *   NORESULTS     R4: a turn ends by rescue while peers may still push results
 *   SAMEFLAG      R5: a late write is taken for one of the turn after next
 *   LEAVEATONCE   C3: a rank leaves before all are done with its last turn
 *   COUNTEACH     S4: each rank counts the rescues that it had part in
 *   SWITCHNOW     S1: a switch begins with the turn that announces it
 *   SWITCHOVER    S1: a switch is announced in the turn in which the last one is taken
 *   SWITCHLATE    S1: a switch is announced after the turn was staged
 */
#ifndef N
#define N 3
#endif
#ifndef S
#define S 2
#endif
#ifndef PASS1
#define PASS1 1
#endif
#ifndef PASS2
#define PASS2 S
#endif
#ifndef MAXC
#define MAXC 0
#endif
#ifndef MAXL
#define MAXL 0
#endif
#ifndef MAXD
#define MAXD 0
#endif
#ifndef MAXB
#define MAXB 0
#endif
#ifndef CPIN
#define CPIN 7
#endif
#ifndef PPIN
#define PPIN 511
#endif
#if N == 2
#define ALL(P)     (P(0) && P(1))
#define ANY(P)     (P(0) || P(1))
#define LEAST(f)   MN(f(0), f(1))
#define MASK(P)    ((P(0) -> 1 : 0) + (P(1) -> 2 : 0))
#else
#define ALL(P)     (P(0) && P(1) && P(2))
#define ANY(P)     (P(0) || P(1) || P(2))
#define LEAST(f)   MN(f(0), MN(f(1), f(2)))
#define MASK(P)    ((P(0) -> 1 : 0) + (P(1) -> 2 : 0) + (P(2) -> 4 : 0))
#endif
#define MX(a,b)    ((a) > (b) -> (a) : (b))
#define MN(a,b)    ((a) < (b) -> (a) : (b))
#define BIT(x)     (1 << (x))

/* The verdict word's state; WITHDRAWN is NONE with a turn. */
#define NONE 0
#define PROP 1
#define DEC  2

/* What a calling thread does. */
#define OUT       0 /* not in a turn */
#define INPUTS    1 /* waits for inputs */
#define ABANDONED 2 /* the output is the watcher's */
#define RELEASED  3 /* the watcher has written it */
#define DROPPED   5 /* the watcher has not, and a verdict stands */
#define PASSEND   6
#define PUSHES    7 /* its results, one by one */
#define RESULTS   8 /* waits for results */
#define LEFT      9 /* its watcher has ended too */

bool alive[N], deadm[N];             /* deadm: the shared mask */
byte cur[N];                         /* turn begun last */
byte staged[N], done[N];
byte kst[N];
bool ask[N];                         /* the watcher asks for the turn to be abandoned */
byte rx[N * N];                      /* inputs that are here, by destination and source: turns, as bits */
byte rep[N], com[N], pf[N];          /* verdict reported; last turn committed; of the pass that failed */
byte vst, vseq, vby;                 /* the verdict word */
byte rw;                             /* the rescue word: WORD(turn, members); each attempt has its own members */
byte given[N];                       /* the rescue that this rank has given its parts to */
byte ncrash, nloss, ndel;
byte dseq, dsrc, ddst;               /* the write that is under way */
#ifdef TWOSHOT
byte results[N], rr[N], need[N];     /* step word; results here, still to be pushed: ranks, as bits */
#endif
#if MAXB || defined(COUNTEACH)
byte rescued, counted;               /* last rescued turn, and how many */
#endif
#if MAXB
byte nbreak, wanted;                 /* wanted: 1 + path, 0 nothing */
byte swturn, swpath;                 /* the switch word */
byte path[N], seen[N];               /* seen: turn of the switch word that was taken last */
byte tpath[S + 2];                   /* 1 + path that a turn was staged for */
#endif
#ifdef GOON
byte bad;
#endif

#define TRUEDONE(q)  (deadm[q] -> MX(staged[q], done[q]) : done[q])
#ifdef DEADDONE
#define ED(q)        (done[q])
#elif defined(HALFSTAGED)
#define ED(q)        (deadm[q] -> S : done[q])
#else
#define ED(q)        TRUEDONE(q)
#endif
#define FIRSTOPEN    (1 + LEAST(ED))
#define TRUEOPEN     (1 + LEAST(TRUEDONE))
#define ALLDONE(x)   (FIRSTOPEN > (x))
#define STEPPED(q)   MX(staged[q], ED(q))
#define STAGEDALL(x) (LEAST(STEPPED) >= (x))
#define DEADSTAGED(q) (deadm[q] -> ED(q) : 255)
#define DEADLACKS(x) (LEAST(DEADSTAGED) < (x))
#define ISDEAD(q)    deadm[q]
#define ISLIVE(q)    (!deadm[q])
#define HAS(q)       (q == r || (rx[r * N + q] & BIT(cur[r])))
#define HAVE         ALL(HAS)
#ifdef TWOSHOT
#define LACKING      ((kst[r] == INPUTS && !HAVE) || (kst[r] == RESULTS && rr[r] != BIT(N) - 1))
#ifdef NORESULTS
#define QUIET(q)     true
#else
#define QUIET(q)     (deadm[q] || results[q] >= cur[r] || done[q] >= cur[r])
#endif
#else
#define LACKING      (kst[r] == INPUTS && !HAVE)
#define QUIET(q)     true
#endif
#define WAITS        (kst[r] == INPUTS || kst[r] == ABANDONED || kst[r] == RESULTS || kst[r] == DROPPED)

#define WORD(t,m)    ((t) * 8 + (m))
#define TURN(w)      ((w) / 8)
#define MEMBER(w,q)  (((w) >> (q)) & 1)
#define DONOR(w)     (MEMBER(w,0) -> 0 : (MEMBER(w,1) -> 1 : 2))
#define GONE(q)      (MEMBER(rw,q) && deadm[q])
/* A slot holds a turn from its staging until that of the turn after next is begun. */
#define WHOLE(q,t)   (staged[q] == (t) || staged[q] == (t) + 1)
#define GIVES(q)     ((q != r && (MEMBER(rw,q) || DONOR(rw) != r)) || WHOLE(q, TURN(rw)))
#ifdef ANYPART
#define PART(q)      (!MEMBER(given[r],q) || given[q])
#else
#define PART(q)      (!MEMBER(given[r],q) || given[q] == given[r])
#endif
#if defined(STALEJOIN)
#define MAYJOIN      true
#elif defined(ONLYSTUCK)
#define MAYJOIN      (done[r] < TURN(rw))
#else
#define MAYJOIN      (!ALLDONE(TURN(rw)))
#endif
#if defined(BEGINEARLY)
#define MAYBEGIN     (TURN(rw) < cur[r])
#elif defined(ONEATTEMPT)
#define MAYBEGIN     (STAGEDALL(cur[r]) && TURN(rw) < cur[r])
#else
#define MAYBEGIN     (STAGEDALL(cur[r]) && (TURN(rw) < cur[r] || (TURN(rw) == cur[r] && ANY(GONE))))
#endif
#define OFTURN(q)    (!MEMBER(given[r],q) || TURN(given[q]) == cur[r])
#define COMPLETE     (given[r] && TURN(given[r]) == cur[r] && ALL(PART))

#ifdef ASWRITTEN
#define STANDS       (vst != NONE)
#else
#define STANDS       (vst == DEC)
#endif
#ifdef RESETWORD
#define WITHDRAW     vst = NONE; vseq = 0; vby = 0
#else
#define WITHDRAW     vst = NONE; vby = 0
#endif
#if defined(NOHELP) || defined(ASWRITTEN)
#define PROPOSER     vby = r
#define MAYSETTLE    (vby == r)
#else
#define PROPOSER     skip             /* nobody asks who it was */
#define MAYSETTLE    true
#endif

/* Invariants 2 and 3: one verdict; nothing that was reported is committed; a pass ends alike. */
#define AGREES(q)    (rep[q] == 0 || rep[q] == rep[r])
#define BELOW(q)     (com[q] < rep[r])
#define ALIKE(q)     (pf[r] == 0 || com[q] < pf[r])
#define UNBROKEN(q)  ((rep[q] == 0 || rep[q] > com[r]) && (pf[q] == 0 || pf[q] > com[r]))
inline check_reported() { assert(ALL(AGREES)); assert(ALL(BELOW)); assert(ALL(ALIKE)) }
inline check_committed() { assert(ALL(UNBROKEN)) }

#ifdef SWITCHOVER
#define TOOK         skip
#else
#define TOOK         took = 1
#endif
#ifdef SWITCHNOW
#define SWITCH(t)    swturn = t; swpath = wanted - 1; wanted = 0
#else
#define SWITCH(t)    swturn = t + 1; swpath = wanted - 1; wanted = 0
#endif
#ifdef SWITCHLATE
#define ANNOUNCE     skip
#else
#define ANNOUNCE     SWITCH(cur[0])
#endif

/* What nobody asks any more is forgotten, so that states that differ in it alone are one. */
inline forget() {
  kst[r] = OUT; ask[r] = 0;
  for (i : 0 .. N - 1) { rx[r * N + i] = rx[r * N + i] & ~(BIT(cur[r] + 1) - 1) }
  i = 0;
#ifdef TWOSHOT
  rr[r] = 0; need[r] = 0;
#endif
}
#define GAVE(q)      (!alive[q] || STEPPED(q) >= cur[r])
inline finish() {
#ifdef GOON
  done[r] = cur[r];
#else
  assert(done[r] + 1 == cur[r]);      /* P1 */
  assert(ALL(GAVE));                  /* R5, R1: what was summed is of this turn */
  done[r] = cur[r];
#endif
  forget()
}

inline die(q) {
  alive[q] = 0; ncrash++; kst[q] = OUT; ask[q] = 0; cur[q] = 0;
  for (i : 0 .. N - 1) { rx[q * N + i] = 0 }
  i = 0;
#ifdef TWOSHOT
  rr[q] = 0; need[q] = 0; results[q] = 0;
#endif
}

proctype Caller(byte r) {
  byte i; bool dies;
#if MAXB
  bool took;
#endif
next:
  atomic { if
    :: !alive[r] -> goto dead
    :: alive[r] && cur[r] == S -> goto fin
    :: alive[r] && cur[r] < S && STANDS -> goto failed     /* may notice, need not */
    :: alive[r] && cur[r] < S ->
       cur[r]++;
#ifndef GOON
       assert(cur[r] < 3 || TRUEOPEN > cur[r] - 2);        /* invariant 4: the slot is free everywhere */
#endif
#if MAXB
       if :: seen[r] != swturn && cur[r] >= swturn -> seen[r] = swturn; path[r] = swpath; TOOK :: else fi;
       if :: r == 0 && wanted && seen[r] == swturn && !took -> ANNOUNCE :: else fi;
       took = 0
#endif
    fi };
#if MAXB
  atomic { if
    :: !alive[r] -> goto dead
    :: alive[r] -> assert(tpath[cur[r]] == 0 || tpath[cur[r]] == 1 + path[r]);   /* invariant 5 */
                   tpath[cur[r]] = 1 + path[r]; if :: cur[r] > 1 -> tpath[cur[r] - 1] = 0 :: else fi
    fi }
#endif
  atomic { if
    :: !alive[r] -> goto dead
    :: alive[r] ->
       if :: staged[r] = cur[r] :: skip fi;                /* seen before the pushes, or only after them */
       if :: ncrash < MAXC && (CPIN & BIT(r)) -> dies = 1 :: skip fi;
       for (i : 0 .. N - 1) { if
         :: i == r
         :: i != r && cur[r] > done[i] -> rx[i * N + r] = rx[i * N + r] | BIT(cur[r])
         :: i != r && cur[r] <= done[i]                    /* it ended by a rescue: R5 */
         :: i != r && dies                                 /* in mid-push */
         :: i != r && dseq == 0 && ndel < MAXD && (PPIN & BIT(r * N + i)) ->
            ndel++; dseq = cur[r]; dsrc = r; ddst = i
         :: i != r && nloss < MAXL && (PPIN & BIT(r * N + i)) -> nloss++
         fi };
       i = 0;
       if :: dies -> dies = 0; die(r); goto dead :: else fi;
       staged[r] = cur[r]; kst[r] = INPUTS
    fi };
wait:
  atomic { if
    :: !alive[r] -> goto dead
#ifdef TWOSHOT
    :: alive[r] && kst[r] == INPUTS && HAVE ->
       kst[r] = PUSHES; need[r] = (BIT(N) - 1) & ~BIT(r); rr[r] = rr[r] | BIT(r); goto wait
    :: alive[r] && kst[r] == PUSHES && need[r] ->
       if :: need[r] & 1 -> i = 0 :: need[r] & 2 -> i = 1 :: need[r] & 4 -> i = 2 fi;
       need[r] = need[r] & ~BIT(i);
       assert(!alive[i] || done[i] < cur[r]);              /* R4: else the user has the buffer back */
       if :: !alive[i] || cur[i] != cur[r]
          :: alive[i] && cur[i] == cur[r] -> rr[i] = rr[i] | BIT(r)
          :: nloss < MAXL && (PPIN & BIT(r * N + i)) -> nloss++ fi;
       i = 0; goto wait
    :: alive[r] && kst[r] == PUSHES && !need[r] -> results[r] = cur[r]; kst[r] = RESULTS; goto wait
    :: alive[r] && kst[r] == RESULTS && rr[r] == BIT(N) - 1 -> finish()
#else
    :: alive[r] && kst[r] == INPUTS && HAVE -> finish()
#endif
    :: alive[r] && ask[r] && LACKING -> kst[r] = ABANDONED; ask[r] = 0;
#ifdef TWOSHOT
       results[r] = cur[r];                                /* they never will be */
#endif
       goto wait
#ifdef LATEENDS
    :: alive[r] && kst[r] == ABANDONED && HAVE -> finish()
#endif
    :: alive[r] && kst[r] == RELEASED -> finish()
    :: alive[r] && (kst[r] == INPUTS || kst[r] == RESULTS || kst[r] == DROPPED) && STANDS -> goto failed
#ifdef GOON
    :: alive[r] && kst[r] == INPUTS && !HAVE && cur[r] < S -> bad = bad | BIT(cur[r]); forget(); goto next
#endif
    fi };
  if :: cur[r] == PASS1 || cur[r] == PASS2 :: else -> goto next fi;
commit:
  atomic { kst[r] = (alive[r] -> PASSEND : OUT); if
    :: !alive[r] -> goto dead
    :: alive[r] && ALLDONE(cur[r]) -> skip
    :: alive[r] && !ALLDONE(cur[r]) && STANDS -> pf[r] = cur[r]; goto failed
    fi };
cread:
  atomic { if
    :: !alive[r] -> goto dead
#ifdef COMMITANY
    :: alive[r] && vst == NONE -> com[r] = cur[r]
    :: alive[r] && STANDS -> pf[r] = cur[r]; goto failed
#else
    :: alive[r] && (vst == NONE || vseq > cur[r]) -> com[r] = cur[r]
    :: alive[r] && STANDS && vseq <= cur[r] -> pf[r] = cur[r]; goto failed
#endif
#if !defined(ASWRITTEN) && !defined(NOHELP)
    :: alive[r] && vst == PROP && vseq <= cur[r] -> WITHDRAW; goto cread     /* all are done: V3 */
#endif
    fi;
    kst[r] = OUT;
#ifdef GOON
    assert((bad & (BIT(cur[r] + 1) - 1)) == 0);
#endif
    check_committed() };
  goto next;
failed:
  atomic { rep[r] = vseq; check_reported(); forget() };
  goto fin;
fin:
#ifdef LEAVE
#ifndef LEAVEATONCE
  /* C3; one that fails leaves at once */
  atomic { !alive[r] || ALLDONE(S) || STANDS };
#endif
  atomic { kst[r] = (alive[r] -> LEFT : OUT) };
#endif
dead: skip
}

#ifdef GIVEUP
#define CAUSE(x) (DEADLACKS(x) || WAITS || (kst[r] == PASSEND && !ALLDONE(cur[r])))
#else
#define CAUSE(x) DEADLACKS(x)
#endif
#define DEADTURN(q) (deadm[q] -> ED(q) : S)

proctype Watcher(byte r) {
  byte p; byte my; bool nd;
end_w:
  do
  :: !alive[r] || kst[r] == LEFT -> break
  /* step one: a cause */
#ifdef OWNSEQ
  :: atomic { alive[r] && vst == NONE && cur[r] > done[r] && CAUSE(cur[r]) && cur[r] > vseq -> p = cur[r] }
#elif defined(VERDICTATONCE)
  :: atomic { alive[r] && vst == NONE && ANY(ISDEAD) && 1 + LEAST(DEADTURN) > vseq -> p = 1 + LEAST(DEADTURN) }
#else
  :: atomic { alive[r] && vst == NONE && CAUSE(FIRSTOPEN) && FIRSTOPEN > vseq && FIRSTOPEN <= S -> p = FIRSTOPEN;
       assert(p == TRUEOPEN) }                             /* L3 */
#endif
     atomic { if
       :: alive[r] && vst == NONE && p > vseq -> vseq = p; PROPOSER;
          assert(p <= TRUEOPEN);                           /* V2: no turn below is open */
#ifdef NOREREAD
          vst = DEC
#else
          vst = PROP
#endif
       :: else
       fi; p = 0 }
  /* step two: re-read, then swap that very proposal */
  :: atomic { alive[r] && vst == PROP && MAYSETTLE -> my = vseq; nd = !ALLDONE(vseq) };
     atomic { if
#ifdef PLAINSTEP2
       :: alive[r] ->
#else
       :: alive[r] && vst == PROP && vseq == my ->
#endif
#ifdef NOWITHDRAW
          vst = DEC; vseq = my
#else
          if :: nd -> vst = DEC; vseq = my :: else -> WITHDRAW fi
#endif
       :: else
       fi; my = 0; nd = 0 }
  /* rescue: data is missing; lost, or only late, and then it must do no harm */
  :: atomic { alive[r] && vst != DEC && (LACKING || kst[r] == ABANDONED) && MAYBEGIN ->
       rw = WORD(cur[r], MASK(ISLIVE)) }
  /* every member joins, also one that is done: gives its own part, and the lowest those of the dead */
  :: atomic { alive[r] && vst != DEC && rw != given[r] && MEMBER(rw, r) && MAYJOIN ->
       assert(ALL(GIVES)); given[r] = rw }                 /* P3: parts are whole, and of the turn */
#ifdef NOACK
  :: atomic { alive[r] && vst != DEC && LACKING && COMPLETE -> p = cur[r] };
     atomic { if :: alive[r] -> assert(kst[r] == INPUTS && cur[r] == p); kst[r] = RELEASED :: else fi; p = 0 }
#elif defined(LATEENDS)
  :: atomic { alive[r] && vst != DEC && LACKING && COMPLETE && !ask[r] -> ask[r] = 1 }
  :: atomic { alive[r] && vst != DEC && kst[r] == ABANDONED && COMPLETE -> p = cur[r] };
     atomic { if :: alive[r] -> assert(kst[r] == ABANDONED && cur[r] == p); kst[r] = RELEASED :: else fi; p = 0 }
#else
  :: atomic { alive[r] && vst != DEC && LACKING && COMPLETE && !ask[r] -> ask[r] = 1 }
  /* the output; an abandoned turn stands still, so that this may be one step */
  :: atomic { alive[r] && vst != DEC && kst[r] == ABANDONED && COMPLETE && ALL(QUIET) ->
       assert(ALL(OFTURN)); kst[r] = RELEASED;
#if MAXB || defined(COUNTEACH)
#ifdef COUNTEACH
          counted++;
#else
          if :: rescued < cur[r] -> counted++ :: else fi;
#endif
          if :: rescued < cur[r] -> rescued = cur[r] :: else fi;
          assert(counted <= rescued)                       /* S4 */
#endif
     }
#endif
  :: atomic { alive[r] && kst[r] == ABANDONED && STANDS -> kst[r] = DROPPED }
  od
}

/* The world. Whoever sees a death puts it into the shared mask; that may be at any later time. */
#define NOTE(q)  atomic { !alive[q] && !deadm[q] -> deadm[q] = 1 }
#define CRASH(q) atomic { ncrash < MAXC && (CPIN & BIT(q)) && alive[q] -> die(q) }
proctype World() {
  byte i;
end:
  do
  :: NOTE(0)
  :: NOTE(1)
#if MAXC
  :: CRASH(0)
  :: CRASH(1)
#endif
#if N > 2
  :: NOTE(2)
#if MAXC
  :: CRASH(2)
#endif
#endif
#if MAXD
  :: atomic { dseq -> if
       :: alive[ddst] && done[ddst] < dseq -> rx[ddst * N + dsrc] = rx[ddst * N + dsrc] | BIT(dseq)
#ifdef SAMEFLAG
       :: alive[ddst] && done[ddst] >= dseq -> rx[ddst * N + dsrc] = rx[ddst * N + dsrc] | BIT(dseq + 2)
#endif
       :: else fi; dseq = 0; dsrc = 0; ddst = 0 }
#endif
#ifdef SWITCHLATE
  :: atomic { wanted && kst[0] == INPUTS && seen[0] == swturn -> SWITCH(cur[0]) }
#endif
#if MAXB
  /* The breaker: opens once something was rescued; a probe may close it at any later time. */
  :: atomic { nbreak < MAXB && wanted == 0 && (counted || nbreak) -> wanted = (nbreak % 2 -> 1 : 2); nbreak++ }
#endif
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. N - 1) { alive[i] = 1 };
    for (i : 0 .. N - 1) { run Caller(i); run Watcher(i) };
    run World();
    i = 0
  }
}
