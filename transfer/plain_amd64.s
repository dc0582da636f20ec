#include "textflag.h"

// func skipPlain(b []byte) (n int, beyondASCII bool)
TEXT ·skipPlain(SB), NOSPLIT, $0-33
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	SUBQ $32, CX          // the last place from which 32 bytes can be read
	XORQ DX, DX           // how far we are
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

	MOVO    X0, X2
	PCMPEQB X8, X2
	MOVO    X0, X3
	PCMPEQB X9, X3
	MOVO    X0, X4
	PMINUB  X10, X4
	PCMPEQB X0, X4 // what is its own minimum with 1f is a control character
	POR     X3, X2
	POR     X4, X2

	MOVO    X1, X5
	PCMPEQB X8, X5
	MOVO    X1, X6
	PCMPEQB X9, X6
	MOVO    X1, X7
	PMINUB  X10, X7
	PCMPEQB X1, X7
	POR     X6, X5
	POR     X7, X5

	MOVO     X2, X12
	POR      X5, X12
	PMOVMSKB X12, AX
	TESTL    AX, AX
	JNZ      found
	POR      X0, X11
	POR      X1, X11
	ADDQ     $32, DX
	JMP      loop

found:
	PMOVMSKB X2, AX
	TESTL    AX, AX
	JNZ      done // in the first half
	POR      X0, X11
	ADDQ     $16, DX

done:
	PMOVMSKB X11, AX // the high bits
	TESTL    AX, AX
	SETNE    beyondASCII+32(FP)
	MOVQ     DX, n+24(FP)
	RET
