//go:build tools

// Package tools keeps the program in go.mod; nothing else imports it.
package tools

import _ "github.com/argoproj/argo-cd/v3/cmd"
