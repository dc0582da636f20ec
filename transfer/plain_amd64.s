#include "textflag.h"

// MARK sets each byte of M to ff where X has a quote, a backslash or a control
// character, which is its own minimum with 1f, and to 0 elsewhere. T is lost.
#define MARK(X, M, T) \
	MOVO    X, M;   \
	PCMPEQB X8, M;  \
	MOVO    X, T;   \
	PCMPEQB X9, T;  \
	POR     T, M;   \
	MOVO    X, T;   \
	PMINUB  X10, T; \
	PCMPEQB X, T;   \
	POR     T, M

// BITS packs the high bits of the bytes of four registers into R. S is lost.
#define BITS(A, B, C, D, R, S) \
	PMOVMSKB D, R; \
	SHLQ     $16, R; \
	PMOVMSKB C, S; \
	ORQ      S, R; \
	SHLQ     $16, R; \
	PMOVMSKB B, S; \
	ORQ      S, R; \
	SHLQ     $16, R; \
	PMOVMSKB A, S; \
	ORQ      S, R

// func skipPlain(b []byte) (n int, special, slash uint64, beyondASCII bool)
TEXT ·skipPlain(SB), NOSPLIT, $0-49
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	SUBQ $64, CX          // the last place from which a window can be read
	XORQ DX, DX           // how far we are
	XORQ R8, R8           // special
	XORQ R9, R9           // slash
	PXOR X11, X11         // all bytes or-ed

	MOVQ $0x2222222222222222, AX // quotes
	MOVQ AX, X8
	PUNPCKLQDQ X8, X8
	MOVQ $0x5c5c5c5c5c5c5c5c, AX // backslashes
	MOVQ AX, X9
	PUNPCKLQDQ X9, X9
	MOVQ $0x1f1f1f1f1f1f1f1f, AX // the last control character
	MOVQ AX, X10
	PUNPCKLQDQ X10, X10

loop:
	CMPQ  DX, CX
	JGT   done
	MOVOU (SI)(DX*1), X0
	MOVOU 16(SI)(DX*1), X1
	MOVOU 32(SI)(DX*1), X2
	MOVOU 48(SI)(DX*1), X3

	MARK(X0, X4, X12)
	MARK(X1, X5, X12)
	MARK(X2, X6, X12)
	MARK(X3, X7, X12)

	POR  X0, X11
	POR  X1, X11
	POR  X2, X11
	POR  X3, X11
	MOVO X4, X12
	POR  X5, X12
	POR  X6, X12
	POR  X7, X12
	PMOVMSKB X12, AX
	TESTL AX, AX
	JNZ   found
	ADDQ  $64, DX
	JMP   loop

found:
	BITS(X4, X5, X6, X7, R8, BX)
	PCMPEQB X9, X0
	PCMPEQB X9, X1
	PCMPEQB X9, X2
	PCMPEQB X9, X3
	BITS(X0, X1, X2, X3, R9, BX)

done:
	PMOVMSKB X11, AX // the high bits
	TESTL AX, AX
	SETNE beyondASCII+48(FP)
	MOVQ  DX, n+24(FP)
	MOVQ  R8, special+32(FP)
	MOVQ  R9, slash+40(FP)
	RET
