// Flux's source-controller, which `make test-gitops` runs, pinned.
// Replace lines of a dependency do not count, so its own are repeated here. `go mod tidy` must not be run on it: that asks
// for modules of its tests, some of which cannot be had.
module coder-k8s.local/cluster-tools/gitops/flux-source

go 1.26.0

require (
	github.com/fluxcd/source-controller v1.9.4
	github.com/fluxcd/source-controller/api v1.9.4
)

replace (
	github.com/fluxcd/pkg/artifact => github.com/fluxcd/pkg/artifact v0.18.1
	github.com/opencontainers/go-digest => github.com/opencontainers/go-digest v1.0.1-0.20220411205349-bde1400a84be
)
