package main

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
)

// memoryShare is what share of the memory that the service manager allows the
// process (MemoryMax=) the runtime may fill before it collects garbage harder.
const memoryShare = 0.9

// limitMemory tells the runtime how much memory there is, as the process's
// control group has it. GOMEMLIMIT goes before that. Without either, garbage is
// collected as always.
func limitMemory(log *zap.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	switch {
	case err != nil:
		log.Debug("memory is not limited", zap.Error(err))
	case limit > 0 && limit < math.MaxInt64:
		log.Info("memory limit of the runtime", zap.Int64("bytes", limit))
	}
}
