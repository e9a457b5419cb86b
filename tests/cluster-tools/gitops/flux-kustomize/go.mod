// Flux's kustomize-controller, which `make test-gitops` runs, pinned.
// Replace lines of a dependency do not count, so its own are repeated here. `go mod tidy` must not be run on it: that asks
// for modules of its tests, some of which cannot be had.
module coder-k8s.local/cluster-tools/gitops/flux-kustomize

go 1.26.0

require (
	github.com/fluxcd/kustomize-controller v1.9.5
	github.com/fluxcd/kustomize-controller/api v1.9.5
)

replace (
	github.com/fluxcd/pkg/apis/event => github.com/fluxcd/pkg/apis/event v0.27.1
	github.com/opencontainers/go-digest => github.com/opencontainers/go-digest v1.0.1-0.20220411205349-bde1400a84be
	gopkg.in/yaml.v3 => gopkg.in/yaml.v3 v3.0.1
	sigs.k8s.io/kustomize/api => sigs.k8s.io/kustomize/api v0.21.1
	sigs.k8s.io/kustomize/kyaml => sigs.k8s.io/kustomize/kyaml v0.21.1
)
