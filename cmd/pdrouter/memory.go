package main

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
)

// memoryShare is what share of the memory that the service manager allows the
// process (MemoryMax=) the runtime may fill before it collects garbage harder.
const memoryShare = 0.9

// garbageShare is how much garbage there may be for what is in use, in percent.
// A router has little in use and makes 12 KB of garbage a request: at Go's own
// 100, collecting it is a sixth of the CPU of a request of 1 KB; from 200 on
// little is won and memory grows (docs/performance.md). Near the limit of memory
// the runtime collects as often as it must.
const garbageShare = 200

// limitMemory tells the runtime how much memory there is, as the process's
// control group has it, and how much of it may be garbage. GOMEMLIMIT and GOGC go
// before that.
func limitMemory(log *zap.Logger) {
	if os.Getenv("GOGC") == "" { //nolint:forbidigo // the runtime's own variable
		debug.SetGCPercent(garbageShare)
	}
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	switch {
	case err != nil:
		log.Debug("memory is not limited", zap.Error(err))
	case limit > 0 && limit < math.MaxInt64:
		log.Info("memory limit of the runtime", zap.Int64("bytes", limit))
	}
}
