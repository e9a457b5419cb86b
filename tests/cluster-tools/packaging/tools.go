//go:build tools

// Package tools keeps the program in go.mod; nothing else imports it.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
