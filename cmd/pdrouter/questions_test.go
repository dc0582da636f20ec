package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const shipped = "../../deploy/"

// A question is an expression that we ship, and where it stands.
type question struct{ where, expr string }

// A shippedRule is a rule of a rules file.
type shippedRule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func (r shippedRule) where() string {
	if r.Alert != "" {
		return "alert " + r.Alert
	}
	return "rule " + r.Record
}

// shippedRules returns the rules of all files, in their order.
func shippedRules(t *testing.T) (all []shippedRule) {
	t.Helper()
	files, err := filepath.Glob(shipped + "prometheus/rules/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatalf("rules: %v, %v", files, err)
	}
	for _, file := range files {
		var doc struct {
			Groups []struct{ Rules []shippedRule }
		}
		if err := yaml.Unmarshal(readFile(t, file), &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range doc.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// A shippedPanel is a panel of the dashboard.
type shippedPanel struct {
	Type, Title string
	Targets     []struct{ RefID, Expr, LegendFormat string }
	Panels      []shippedPanel
}

// shippedPanels returns the dashboard's panels, and the queries of its variables.
func shippedPanels(t *testing.T) (panels []shippedPanel, variables []question) {
	t.Helper()
	var doc struct {
		Panels     []shippedPanel
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal(readFile(t, shipped+"grafana/pdrouter.json"), &doc); err != nil {
		t.Fatal(err)
	}
	for _, v := range doc.Templating.List {
		if inner, ok := strings.CutPrefix(v.Query, "label_values("); ok && v.Type == "query" {
			at := strings.LastIndexByte(inner, ',')
			label := strings.TrimSuffix(strings.TrimSpace(inner[at+1:]), ")")
			variables = append(variables, question{"variable " + v.Name, fmt.Sprintf("count by (%s) (%s)", label, inner[:at])})
		}
	}
	return doc.Panels, variables
}

// questions returns every expression that we ship, with the choices above the
// dashboard as they are at first.
func questions(t *testing.T) (all []question) {
	t.Helper()
	for _, r := range shippedRules(t) {
		all = append(all, question{r.where(), r.Expr})
	}
	panels, variables := shippedPanels(t)
	all = append(all, variables...)
	for _, p := range panels {
		for _, q := range p.Targets {
			all = append(all, question{"panel " + p.Title + "/" + q.RefID, q.Expr})
		}
	}
	chosen := strings.NewReplacer("$__rate_interval", "8s", "$instance", ".*", "$model", ".*", "$worker", ".*")
	for i := range all {
		all[i].expr = chosen.Replace(all[i].expr)
	}
	return all
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPromtool has Prometheus' own tool check what we ship, and run the tests of
// every alert.
func TestPromtool(t *testing.T) {
	tool := debian(t, "promtool")
	tests, err := filepath.Glob(shipped + "prometheus/tests/*.yml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("tests: %v, %v", tests, err)
	}
	runs := map[string][]string{
		"config": {"check", "config", shipped + "prometheus/prometheus.yml"},
		"rules":  {"check", "rules", "--lint=all", "--lint-fatal", shipped + "prometheus/rules/pdrouter-alerts.yml", shipped + "prometheus/rules/pdrouter-recording.yml"},
	}
	for _, file := range tests {
		runs[filepath.Base(file)] = []string{"test", "rules", file}
	}
	for name, args := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
				t.Errorf("promtool %v: %v\n%s", args, err, out)
			}
		})
	}
}

// TestEveryAlertIsTested: the tests have it fire and not fire, and docs/alerts.md
// says what it means, what to look at and what to do.
func TestEveryAlertIsTested(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	files, _ := filepath.Glob(shipped + "prometheus/tests/*.yml")
	for _, file := range files {
		var doc struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string
					ExpAlerts []any `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal(readFile(t, file), &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range doc.Tests {
			for _, a := range test.AlertRuleTest {
				fires[a.Alertname] = fires[a.Alertname] || len(a.ExpAlerts) > 0
				silent[a.Alertname] = silent[a.Alertname] || len(a.ExpAlerts) == 0
			}
		}
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(readFile(t, "../../docs/alerts.md")), "\n## ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	for _, r := range shippedRules(t) {
		if r.Alert == "" {
			continue
		}
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: tested to fire: %v, not to fire: %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		if want := "docs/alerts.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s has annotations %v and labels %v, want the runbook %s, a summary and a severity", r.Alert, r.Annotations, r.Labels, want)
		}
		for _, part := range []string{"**Means.**", "**Look at.**", "**Do.**", "```"} {
			if !strings.Contains(sections[r.Alert], part) {
				t.Errorf("docs/alerts.md: %s has no %s", r.Alert, part)
			}
		}
		delete(sections, r.Alert)
	}
	for name := range sections {
		if strings.HasPrefix(name, "Pdrouter") {
			t.Errorf("docs/alerts.md: %s is no alert", name)
		}
	}
}

// goldenFamilies are those in the golden exposition.
func goldenFamilies(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(string(readFile(t, "../../metrics/testdata/exposition.txt")), -1) {
		all[m[1]] = true
	}
	return all
}

// TestShippedNamesExist: every family of ours that an expression asks for is in
// the golden exposition.
func TestShippedNamesExist(t *testing.T) {
	golden := goldenFamilies(t)
	name := regexp.MustCompile(`\b(?:pdrouter|smg)_[a-z0-9_]+`)
	for _, q := range questions(t) {
		for _, n := range name.FindAllString(q.expr, -1) {
			family := strings.TrimSuffix(strings.TrimSuffix(n, "_bucket"), "_count")
			if !golden[n] && !golden[family] {
				t.Errorf("%s: there is no %s", q.where, n)
			}
		}
	}
}

// TestRunbookCommands: what docs/alerts.md says to run is there: our commands, and
// each alternative that is looked for in our metrics.
func TestRunbookCommands(t *testing.T) {
	golden := string(readFile(t, "../../metrics/testdata/exposition.txt"))
	run, looked := 0, 0
	for _, line := range commands(string(readFile(t, "../../docs/alerts.md"))) {
		if args, ok := strings.CutPrefix(line, "pdrouter "); ok {
			run++
			words := strings.Fields(args)
			cmd, rest, err := newRootCommand(words).Find(words)
			if err != nil || cmd.Name() != words[0] || cmd.ParseFlags(rest) != nil {
				t.Errorf("%s: no such command: %v", line, err)
			}
		}
		_, pattern, ok := strings.Cut(line, ":29001/metrics | grep ")
		if !ok {
			continue
		}
		for one := range strings.SplitSeq(alternatives(pattern), "\n") {
			looked++
			if re, err := regexp.Compile(one); err != nil || !re.MatchString(golden) {
				t.Errorf("%s: nothing matches %q: %v", line, one, err)
			}
		}
	}
	if run < 9 || looked < 40 {
		t.Errorf("found %d commands and %d patterns", run, looked)
	}
}

// alternatives returns those of a pattern of grep, a line each; one pair of
// parentheses is multiplied out.
func alternatives(pattern string) string {
	pattern = strings.Trim(strings.TrimPrefix(pattern, "-E "), "'")
	group := regexp.MustCompile(`^((?:.*\|)?)([^|(]*)\(([^)]*)\)([^|]*)(.*)$`)
	if m := group.FindStringSubmatch(pattern); m != nil {
		inner := strings.Split(m[3], "|")
		for i := range inner {
			inner[i] = m[2] + inner[i] + m[4]
		}
		pattern = m[1] + strings.Join(inner, "|") + m[5]
	}
	return strings.ReplaceAll(pattern, "|", "\n")
}
