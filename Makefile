# coder-k8s: `make help` lists every target. Everything installs what it needs into the user's cache.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

# Where cargo builds, also when the environment or a configuration moves it.
TARGET = $(shell cargo metadata --format-version=1 --no-deps --offline | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/coder-k8s
CARGO_DENY_VERSION := 0.20.2
TYPOS_VERSION := 1.51.1
TYPOS := $(CACHE)/typos-$(TYPOS_VERSION)/bin/typos
CARGO_DENY := $(CACHE)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
KUBECTL = $(or $(wildcard $(KUBEBUILDER_ASSETS)/kubectl),$(shell tests/cluster-tools/build.sh --where)/kubectl)
# A Component is built where it is taken in: tests/packaging builds each of them.
KUSTOMIZATIONS = crds webhooks policies policies/warn-only $(patsubst %/kustomization.yaml,%,$(shell \
  grep -l '^kind: Kustomization' kustomize/*/kustomization.yaml kustomize/*/*/kustomization.yaml kustomize/*/*/*/kustomization.yaml))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the operator (debug profile)
	cargo build --locked

.PHONY: run
run: cluster-tools ## a local cluster with simulated nodes, the operator and one object of each kind, until Ctrl-C
	@echo "--> building the operator and the harness (about three minutes the first time)"
	@# Together: with other features for each, most dependencies would be built twice.
	@cargo build --locked -p coder-k8s -p support --bin coder-k8s --bin local-cluster
	@$(TARGET)/debug/local-cluster $(TARGET)/debug/coder-k8s $(RUN_ARGS)

.PHONY: test
test: cluster-tools packaging-tools ## all unit and integration tests, on a real API server, SUITES_AT_ONCE=2
	@RUST_BACKTRACE=0 tests/run-suites.sh

.PHONY: test-contract
test-contract: cluster-tools ## the coderd double and the operator's access beside a real coderd (ten minutes once, then two)
	@tests/cluster-tools/coderd/build.sh
	RUST_BACKTRACE=0 cargo test --locked --test contract -- --include-ignored --nocapture --test-threads=1

.PHONY: test-faults
test-faults: cluster-tools ## every fault of coderd and its database, and a death of the operator at every write (up to half an hour)
	RUST_BACKTRACE=0 cargo test --locked --test error_matrix -- --ignored
	RUST_BACKTRACE=0 cargo test --locked --test crashes -- --ignored --nocapture --test-threads=1

.PHONY: test-gitops
test-gitops: cluster-tools gitops-tools ## Coder from a Git repository, by the real Flux and the real Argo CD (a quarter of an hour once, then ten minutes)
	RUST_BACKTRACE=0 cargo test --locked --test gitops -- --ignored --nocapture --test-threads=1

.PHONY: cluster-tools
cluster-tools: ## build the test cluster's programs that are missing (about 11 minutes, once)
	@tests/cluster-tools/build.sh

.PHONY: packaging-tools
packaging-tools: ## build a second kustomize and fetch the CRDs that the overlay matrix needs (a minute or two, once)
	@tests/cluster-tools/packaging/build.sh

.PHONY: gitops-tools
gitops-tools: ## build the real Flux and Argo CD for GitOps tests (about 14 minutes, once)
	@tests/cluster-tools/gitops/build.sh

.PHONY: generate
generate: ## write the generated files: CRDs, RBAC, kustomize/schemas, kustomize/kustomizeconfig, docs/reference, docs/metrics.md
	cargo run --locked --quiet -- manifests --output=.
	@# Once more: the rules in the CRDs follow the schemas that the first run has written.
	@cargo run --locked --quiet -- manifests --output=.

.PHONY: lint
lint: cluster-tools $(CARGO_DENY) $(TYPOS) ## rustfmt, typos, clippy, generated-file drift, cargo-deny, kustomize builds
	cargo fmt --all --check
	$(TYPOS)
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@# Built as a suite needs it: with other features, as `cargo run` asks for, most dependencies would be built twice.
	@cargo test --locked --quiet --workspace --no-run --test packaging
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && $(TARGET)/debug/coder-k8s manifests --output="$$out" && \
	  (cd "$$out" && find . -type f | sort) | while read -r file; do \
	    diff -u "$$file" "$$out/$$file" || { echo "$$file is not what 'make generate' writes" >&2; exit 1; }; done
	$(CARGO_DENY) --log-level error check bans licenses sources
	@for folder in $(KUSTOMIZATIONS); do echo "kustomize build $$folder" && $(KUBECTL) kustomize "$$folder" >/dev/null; done

.PHONY: advisories
advisories: $(CARGO_DENY) ## known vulnerabilities of dependencies (downloads the advisory database)
	$(CARGO_DENY) --log-level error check advisories

$(TYPOS):
	@echo "--> installing typos $(TYPOS_VERSION)"
	@# The same program, ready-made where there is pip and built (some minutes, once) where there is none.
	@if command -v pip >/dev/null; then \
	  pip install --quiet --target $(CACHE)/typos-$(TYPOS_VERSION) typos==$(TYPOS_VERSION); else \
	  cargo install typos-cli --locked --version $(TYPOS_VERSION) --quiet --root $(CACHE)/typos-$(TYPOS_VERSION); fi

$(CARGO_DENY):
	@echo "--> installing cargo-deny $(CARGO_DENY_VERSION) (about three minutes, once)"
	cargo install cargo-deny --locked --version $(CARGO_DENY_VERSION) --no-default-features --quiet \
	  --root $(CACHE)/cargo-deny-$(CARGO_DENY_VERSION)

.PHONY: footprint
footprint: cluster-tools ## memory (idle in each mode, under attack, among 300 big Secrets), binary size, time to readiness
	@echo "--> building the release binary (about five minutes the first time)"
	@cargo build --locked --release --bin coder-k8s
	@cargo build --locked -p support --bin footprint
	@$(TARGET)/debug/footprint $(TARGET)/release/coder-k8s $(PARTS)

.PHONY: bench-webhook
bench-webhook: cluster-tools ## our webhooks beside one that allows everything, interleaved
	@echo "--> building the release binaries (some minutes the first time)"
	@cargo build --locked --release --bin coder-k8s
	@cargo build --locked --release -p support --bin bench-webhook
	@$(TARGET)/release/bench-webhook $(TARGET)/release/coder-k8s

.PHONY: bench-scale
bench-scale: cluster-tools ## time, requests and memory for SIZES="100 300 1000" control planes, beside a bare client
	@echo "--> building the release binaries (some minutes the first time)"
	@cargo build --locked --release --bin coder-k8s
	@cargo build --locked --release -p support --bin bench-scale
	@$(TARGET)/release/bench-scale $(TARGET)/release/coder-k8s $(SIZES)

# Where released images are, and nowhere else: install.yaml and the container file follow.
REGISTRY ?= ghcr.io/coder
ARCHITECTURES ?= amd64

.PHONY: dist
dist: cluster-tools ## a release in target/dist: static binaries, install.yaml, archives, SBOM, checksums (ten minutes a platform)
	@REGISTRY="$(REGISTRY)" ARCHITECTURES="$(ARCHITECTURES)" KUBECTL="$(KUBECTL)" dist/build.sh "$(TARGET)/dist"

.PHONY: test-dist
test-dist: dist ## the release in an empty root, as root: it is ready, resolves names, checks certificates
	CODER_K8S_DIST="$(TARGET)/dist" RUST_BACKTRACE=0 cargo test --locked --workspace --test dist -- --ignored --nocapture

# kubeconform is for this target alone: its folder in the cache has a key of its own, so that it never makes anybody
# build the cluster's programs again.
KUBECONFORM_MODULE := tests/cluster-tools/kubeconform
KUBECONFORM = $(CACHE)/kubeconform-$(shell cat $(KUBECONFORM_MODULE)/go.mod $(KUBECONFORM_MODULE)/go.sum | sha256sum | cut -c1-16)/kubeconform

.PHONY: bench-lint
bench-lint: ## lint of 1,000 manifests beside kubeconform on the same files, interleaved
	@echo "--> building the release binary and kubeconform (some minutes the first time)"
	@[ -x "$(KUBECONFORM)" ] || GOFLAGS=-mod=readonly go build -C $(KUBECONFORM_MODULE) -trimpath -ldflags='-s -w' \
	  -o "$(KUBECONFORM)" github.com/yannh/kubeconform/cmd/kubeconform
	@cargo build --locked --release --bin coder-k8s
	@cargo build --locked -p support --bin bench-lint
	@$(TARGET)/debug/bench-lint $(TARGET)/release/coder-k8s "$(KUBECONFORM)"

.PHONY: fuzz
fuzz: ## feed AdmissionReviews and manifests nobody would write, FUZZ_SECONDS=60 for each of the two
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) tests/fuzz/run.sh

.PHONY: clean
clean: ## remove build results; the cluster's programs stay in the cache
	cargo clean
	rm -rf .local
