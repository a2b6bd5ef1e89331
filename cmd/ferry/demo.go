package main

import (
	"github.com/spf13/cobra"

	"github.com/ferry-broker/ferry/internal/server"
)

func newDemo(env environment) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Show in a minute what Ferry is for", Args: cobra.NoArgs,
		Long: "Start the broker and a simulated Cloud Foundry, walk a platform's life against them\n" +
			"(requests sent several times, at once and again) and check every answer.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return server.Demo(cmd.Context(), env.stdout, env.version)
		},
	}
}
