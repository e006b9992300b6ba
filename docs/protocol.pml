/* SPDX-License-Identifier: Apache-2.0 */
/* belay: staging, push, late/lost, rescue, two-step verdict, pass commit. 3 ranks, seq 1..3,
 * passes [1..2] and [3]. Default build = the protocol as AMENDED; -D switches undo one rule each:
 *   ASWRITTEN  proposal counts as verdict as soon as it is published; only the proposer withdraws it
 *   NOREREAD   proposal decided without re-reading done words
 *   NOWITHDRAW re-read done, but never withdrawn
 *   NOHELP     only the proposer does step two (its death leaves PROPOSED for ever)
 *   COMMITANY  a commit fails on any verdict, also one above the pass's last seq
 *   OWNSEQ     proposal names the proposer's own stuck seq, not 1 + min(done)
 *   PLAINSTEP2 step two is a plain store, not a CAS on the proposal
 *   GOON       a kernel that gave up returns, the next kernel of the graph goes on and posts done
 *   NOACK      the watcher writes the output without the kernel's acknowledgement
 *   RESETWORD  a withdrawn verdict word goes back to its first value (ABA)
 *   DEADDONE   a dead rank counts by its done word only (no donation rule)
 *   VERDICTATONCE death gives a verdict at 1+staged(dead) though lower seqs are not done everywhere */
#define N 3
#ifndef S
#define S 3
#endif
#ifndef PASS1
#define PASS1 2
#endif
#ifndef MAXC
#define MAXC 2
#endif
#ifndef MAXL
#define MAXL 1
#endif
#ifndef MAXD
#define MAXD 1
#endif
#ifdef RESETWORD
#define WITHDRAW vst=NONE; vseq=0
#else
#define WITHDRAW vst=NONE       /* the word keeps the withdrawn seq: only a higher one may be proposed */
#endif
#define NONE 0
#define PROP 1
#define DEC  2
/* kst, as in runtime/outcome/mailbox.h: 0 not in a call, 1 polling (IDLE, STUCK), 4 polling and asked to abandon (ASKED),
 * 2 abandoned: the watcher owns the output (ABANDONED), 3 released with the output, 5 released without (a verdict
 * follows), 6 in pass end */
byte staged[N]; byte done[N]; bool alive[N]; bool deadm[N]; byte ret[6]; byte rx[9];
byte cur[N]; byte kst[N]; byte rep[N]; byte com[N]; byte pf[N]; byte bad[N]; bool wr[N];
byte vst; byte vseq; byte vby;
byte ncrash; byte nloss; byte ndel; byte dseq; byte dsrc; byte ddst;

#define MX(a,b) ((a)>(b)->(a):(b))
#ifdef DEADDONE
#define ED(q) (done[q])
#else
#define ED(q) (deadm[q] -> MX(staged[q],done[q]) : done[q])
#endif
#define ALLDONE(x) (ED(0)>=(x) && ED(1)>=(x) && ED(2)>=(x))
#define MN(a,b) ((a)<(b)->(a):(b))
#define MINDONE MN(ED(0),MN(ED(1),ED(2)))
/* L3 as it should be, whatever DEADDONE does: what the assertions go by */
#define TRUEDONE(q) (deadm[q] -> MX(staged[q],done[q]) : done[q])
#define TRUEOPEN (1+MN(TRUEDONE(0),MN(TRUEDONE(1),TRUEDONE(2))))
#define DEADLACKS(x) ((deadm[0]&&ED(0)<(x))||(deadm[1]&&ED(1)<(x))||(deadm[2]&&ED(2)<(x)))
#define STAGEDALL(x) (MX(staged[0],done[0])>=(x) && MX(staged[1],done[1])>=(x) && MX(staged[2],done[2])>=(x))
#define BIT(x) (1<<(x))
#define HAVE(r,s) (((r)==0||(rx[(r)*3+0]&BIT(s))) && ((r)==1||(rx[(r)*3+1]&BIT(s))) && ((r)==2||(rx[(r)*3+2]&BIT(s))))
#ifdef ASWRITTEN
#define STANDS (vst!=NONE)
#else
#define STANDS (vst==DEC)
#endif
/* invariant 2: one reported seq; invariant 3: no committed pass holds a reported seq; a pass ends alike */
inline check() {
  assert(rep[0]==0||rep[1]==0||rep[0]==rep[1]); assert(rep[0]==0||rep[2]==0||rep[0]==rep[2]); assert(rep[1]==0||rep[2]==0||rep[1]==rep[2]);
  assert(rep[0]==0||(rep[0]>com[0]&&rep[0]>com[1]&&rep[0]>com[2]));
  assert(rep[1]==0||(rep[1]>com[0]&&rep[1]>com[1]&&rep[1]>com[2]));
  assert(rep[2]==0||(rep[2]>com[0]&&rep[2]>com[1]&&rep[2]>com[2]));
  assert(pf[0]==0||(pf[0]>com[0]&&pf[0]>com[1]&&pf[0]>com[2]));
  assert(pf[1]==0||(pf[1]>com[0]&&pf[1]>com[1]&&pf[1]>com[2]));
  assert(pf[2]==0||(pf[2]>com[0]&&pf[2]>com[1]&&pf[2]>com[2]));
}
proctype Rank(byte r) {
  byte s=1; byte i;
next:
  atomic { if
    :: !alive[r] -> goto dead
    :: alive[r] && s>S -> goto fin
    :: alive[r] && s<=S && STANDS -> goto failed     /* may notice at entry, need not */
    :: alive[r] && s<=S ->
#ifndef GOON
       assert(s<3 || ALLDONE(s-2));                   /* invariant 4: slot s mod 2 is free everywhere */
#endif
       ret[r*2+s%2]=s; cur[r]=s; i=0;
       if :: staged[r]=s :: skip fi;                  /* staged word visible before the pushes, or only after them */
       do
       :: i==N -> break
       :: i<N && i==r -> i++
       :: i<N && i!=r -> if
         :: rx[i*3+r]=rx[i*3+r]|BIT(s)
         :: dseq==0 && ndel<MAXD -> ndel++; dseq=s; dsrc=r; ddst=i
         :: nloss<MAXL -> nloss++
         :: ncrash<MAXC -> ncrash++; alive[r]=0; i=0; goto dead   /* dies in mid-push */
         fi; i++
       od; i=0;
       staged[r]=s; kst[r]=1
    fi }
wait:
  atomic { if
    :: !alive[r] -> goto dead
    :: alive[r] && (kst[r]==1||kst[r]==4) && HAVE(r,s) -> done[r]=s; kst[r]=0
    :: alive[r] && kst[r]==4 && !HAVE(r,s) -> kst[r]=2; goto wait   /* from here on it writes no output */
    :: alive[r] && kst[r]==3 -> done[r]=s; kst[r]=0
    :: alive[r] && (kst[r]==1||kst[r]==4||kst[r]==5) && STANDS -> goto failed
#ifdef GOON
    :: alive[r] && kst[r]==1 && !HAVE(r,s) && s<S -> bad[r]=bad[r]|BIT(s); kst[r]=0; s++; goto next
#endif
    fi }
  if :: s==PASS1||s==S :: else -> s++; goto next fi;
commit:
  atomic { kst[r]=6; if
    :: !alive[r] -> goto dead
    :: alive[r] && ALLDONE(s) -> skip
    :: alive[r] && !ALLDONE(s) && STANDS -> pf[r]=s; goto failed
    fi }
cread:
  atomic { if
    :: !alive[r] -> goto dead
#ifdef COMMITANY
    :: alive[r] && vst==NONE -> com[r]=s
    :: alive[r] && STANDS -> pf[r]=s; goto failed
#else
    :: alive[r] && (vst==NONE || vseq>s) -> com[r]=s
    :: alive[r] && STANDS && vseq<=s -> pf[r]=s; goto failed
#endif
#ifndef ASWRITTEN
#ifndef NOHELP
    :: alive[r] && vst==PROP && vseq<=s -> WITHDRAW; goto cread   /* all are done: anyone may withdraw */
#endif
#endif
    fi;
    kst[r]=0;
    assert((bad[0]|bad[1]|bad[2])==0 || (((bad[0]|bad[1]|bad[2]) & (BIT(s+1)-1))==0));
    check() }
  s++; goto next;
failed:
  atomic { rep[r]=vseq; kst[r]=0; check() } ; goto fin;
dead: skip;
fin: skip
}
proctype Watcher(byte r) {
  byte p; byte my; bool nd; byte s;
end_w:
  do
  /* step one: a cause (death that leaves a seq unstaged, or my hard deadline) */
#ifdef OWNSEQ
  :: atomic { alive[r] && vst==NONE && cur[r]>done[r] && (DEADLACKS(cur[r]) || kst[r]==1 || kst[r]==4 || kst[r]==5) && cur[r]>vseq -> p=cur[r] };
     goto cas;
  :: atomic { alive[r] && vst==NONE && kst[r]==6 && !ALLDONE(cur[r]) && cur[r]>vseq -> p=cur[r] };
#else
#ifdef VERDICTATONCE
  :: atomic { alive[r] && vst==NONE && (deadm[0]||deadm[1]||deadm[2]) ->
      p = 1+MN((deadm[0]->ED(0):S), MN((deadm[1]->ED(1):S),(deadm[2]->ED(2):S))) };
#else
  :: atomic { alive[r] && vst==NONE && (DEADLACKS(MINDONE+1) || kst[r]==1 || kst[r]==4 || kst[r]==5 || (kst[r]==6 && !ALLDONE(cur[r]))) && MINDONE+1>vseq -> p=MINDONE+1;
      assert(p==TRUEOPEN) };   /* L3: what a dead rank has staged is not open for lack of its done word */
#endif
#endif
cas: atomic { if :: alive[r] && vst==NONE && p>vseq -> vseq=p; vby=r;
         assert(p<=TRUEOPEN);   /* V2: no turn below a proposed one is open */
#ifdef NOREREAD
         vst=DEC
#else
         vst=PROP
#endif
       :: else fi; p=0 }
  /* step two: re-read, then CAS on the very proposal */
#if defined(NOHELP) || defined(ASWRITTEN)
  :: atomic { alive[r] && vst==PROP && vby==r -> my=vseq; nd=!ALLDONE(vseq) };
#else
  :: atomic { alive[r] && vst==PROP -> my=vseq; nd=!ALLDONE(vseq) };
#endif
     atomic { if
#ifdef PLAINSTEP2
       :: alive[r] ->
#else
       :: alive[r] && vst==PROP && vseq==my ->
#endif
#ifdef NOWITHDRAW
            vst=DEC; vseq=my
#else
            if :: nd -> vst=DEC; vseq=my :: else -> WITHDRAW fi
#endif
       :: else fi; my=0; nd=0 }
  /* rescue: every rank has staged, data missing: lost, or still in flight (a wrong guess must be harmless) */
#ifdef NOACK
  :: atomic { alive[r] && kst[r]==1 && STAGEDALL(cur[r]) && !HAVE(r,cur[r]) && vst!=DEC -> s=cur[r]; wr[r]=1 };
     atomic { if :: alive[r] -> assert(kst[r]==1 && cur[r]==s); /* else it writes into a buffer the user has back */
                  wr[r]=0; kst[r]=3
              :: else fi; s=0 }
#else
  :: atomic { alive[r] && kst[r]==1 && STAGEDALL(cur[r]) && !HAVE(r,cur[r]) && vst!=DEC -> kst[r]=4 }
  /* only what the calling thread has abandoned is written, from retained inputs that are intact */
  :: atomic { alive[r] && kst[r]==2 && vst!=DEC -> s=cur[r];
              assert(ret[0+s%2]==s && ret[2+s%2]==s && ret[4+s%2]==s);
              if :: kst[r]=3 :: kst[r]=5 fi; s=0 }
  /* a verdict releases it without an output */
  :: atomic { alive[r] && kst[r]==2 && STANDS -> kst[r]=5 }
#endif
  od
}
proctype Net() {
end_n: do
  :: atomic { !alive[0]&&!deadm[0] -> deadm[0]=1 }    /* some survivor sees the death, at any later time; the mask is shared */
  :: atomic { !alive[1]&&!deadm[1] -> deadm[1]=1 }
  :: atomic { !alive[2]&&!deadm[2] -> deadm[2]=1 }
  :: atomic { dseq!=0 -> rx[ddst*3+dsrc]=rx[ddst*3+dsrc]|BIT(dseq); dseq=0; dsrc=0; ddst=0 }
  od }
proctype Crash() {
end_c: do
  :: atomic { ncrash<MAXC && alive[0] -> alive[0]=0; ncrash++ }
  :: atomic { ncrash<MAXC && alive[1] -> alive[1]=0; ncrash++ }
  :: atomic { ncrash<MAXC && alive[2] -> alive[2]=0; ncrash++ }
  od }
init { atomic { alive[0]=1; alive[1]=1; alive[2]=1;
  run Rank(0); run Rank(1); run Rank(2); run Watcher(0); run Watcher(1); run Watcher(2); run Net(); run Crash() } }
