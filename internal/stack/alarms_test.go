package stack

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// counted is a metric, by the minute: each value is one that was reported in it.
type counted map[int][]float64

// watch is an alarm of one metric, evaluated each minute over a window that slides, as CloudWatch does.
type watch struct {
	average, below     bool
	period, n, m       int // minutes, and of n windows m
	threshold          float64
	missingIsBreaching bool
}

func watchOf(t *testing.T, name string) watch {
	t.Helper()
	alarm := template(t).at("Resources." + name + ".Properties")
	number := func(field string) float64 {
		value, err := strconv.ParseFloat(alarm.at(field).String(), 64)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, field, err)
		}
		return value
	}
	w := watch{
		period: int(number("Period")) / 60, n: int(number("EvaluationPeriods")), threshold: number("Threshold"),
		average: alarm.at("Statistic").String() == "Average", below: alarm.at("ComparisonOperator").String() == "LessThanThreshold",
		missingIsBreaching: alarm.at("TreatMissingData").String() == "breaching",
	}
	if w.m = w.n; alarm.at("DatapointsToAlarm").value != nil {
		w.m = int(number("DatapointsToAlarm"))
	}
	if seconds := w.period * 60 * w.n; seconds > 7*86400 || w.period < 60 && seconds > 86400 {
		t.Errorf("%s looks back over %d seconds, more than CloudWatch takes", name, seconds)
	}
	return w
}

// rings is the first minute at whose end the alarm rings, -1 for never.
func (w watch) rings(data counted, minutes int) int {
	for now := 1; now <= minutes; now++ {
		breaching := 0
		for i := range w.n {
			if w.breaches(data, now-(i+1)*w.period, now-i*w.period) {
				breaching++
			}
		}
		if breaching >= w.m {
			return now
		}
	}
	return -1
}

func (w watch) breaches(data counted, from, to int) bool {
	sum, samples := 0.0, 0
	for minute := from; minute < to; minute++ {
		for _, value := range data[minute] {
			sum += value
			samples++
		}
	}
	if samples == 0 {
		return w.missingIsBreaching
	}
	if w.average {
		sum /= float64(samples)
	}
	if w.below {
		return sum < w.threshold
	}
	return sum >= w.threshold
}

// answers are so many each few minutes, of which some are 5xx, from a minute on.
func answers(from, to, every, all, failed int) counted {
	data := counted{}
	for minute := from; minute < to; minute += every {
		for i := range all {
			value := 0.0
			if i < failed {
				value = 1
			}
			data[minute] = append(data[minute], value)
		}
	}
	return data
}

// TestServerErrorsRingByTheirShare: API Gateway reports 0 or 1 of 5XXError for each request.
func TestServerErrorsRingByTheirShare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		alarm   string
		data    counted
		by      int // the last minute at which it may begin to ring, 0 for never
		minutes int
	}{
		"a small installation that gets nothing but 503":     {"ServerErrorsAlarm", answers(0, 120, 10, 1, 1), 60, 120},
		"one that asks three times an hour":                  {"ServerErrorsAlarm", answers(0, 120, 20, 1, 1), 60, 120},
		"a busy one of which a fifth fails":                  {"ServerErrorsAlarm", answers(0, 60, 1, 100, 20), 15, 60},
		"a busy one with few failures, however many":         {"ServerErrorsAlarm", answers(0, 600, 1, 10_000, 50), 0, 600},
		"one failure of a small installation":                {"ServerErrorsAlarm", answers(0, 1, 1, 1, 1), 0, 600},
		"nobody asks":                                        {"ServerErrorsAlarm", nil, 0, 600},
		"a new version that fails with all of its tenth":     {"ReleaseAlarm", answers(0, 5, 1, 100, 10), 5, 5},
		"a new version with few failures":                    {"ReleaseAlarm", answers(0, 5, 1, 1000, 20), 0, 5},
		"a new version of an installation that is not asked": {"ReleaseAlarm", nil, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := watchOf(t, test.alarm).rings(test.data, test.minutes)
			if (got < 0) != (test.by == 0) || got > test.by {
				t.Errorf("it rings at minute %d, want one until %d (0: never)", got, test.by)
			}
		})
	}
}

// audits are what the janitor reports in a number of days: a line each minute, and of an audit a day those that were
// completed.
func audits(days int, completed func(day int) bool) counted {
	data := counted{}
	for minute := range days * 24 * 60 {
		data[minute] = append(data[minute], 0)
		if minute%1440 == 0 && minute > 0 && completed(minute/1440) {
			data[minute+7] = append(data[minute+7], 1)
		}
	}
	return data
}

func TestAnAuditThatFailsOrDoesNotComeRings(t *testing.T) {
	t.Parallel()
	const day = 24 * 60
	failed := counted{3*day + 7: {1}}
	for name, test := range map[string]struct {
		alarm    string
		data     counted
		from, by int
	}{
		"each day one is completed":                        {"AuditsMissingAlarm", audits(6, func(int) bool { return true }), 0, 0},
		"there is none on the third day":                   {"AuditsMissingAlarm", audits(6, func(d int) bool { return d != 3 }), 3 * day, 4 * day},
		"there never is one":                               {"AuditsMissingAlarm", audits(3, func(int) bool { return false }), day, 2 * day},
		"the janitor is silent, which another alarm tells": {"AuditsMissingAlarm", counted{}, 0, 0},
		"one failed":  {"AuditsFailedAlarm", failed, 3 * day, 3*day + 70},
		"none failed": {"AuditsFailedAlarm", counted{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := watchOf(t, test.alarm).rings(test.data, 6*day)
			if (got < 0) != (test.by == 0) || got < test.from && got >= 0 || got > test.by {
				t.Errorf("it rings at minute %d, want one from %d until %d (0: never)", got, test.from, test.by)
			}
		})
	}
	w := watchOf(t, "AuditsFailedAlarm")
	if !w.breachesWithin(failed, 3*day+20*60) || w.breachesWithin(failed, 4*day+120) {
		t.Error("a failed audit is not told until the next one, or longer")
	}
}

// breachesWithin reports whether the alarm rings at a minute.
func (w watch) breachesWithin(data counted, now int) bool {
	shifted := counted{}
	for minute, values := range data {
		shifted[minute-now+1] = values
	}
	return w.rings(shifted, 1) == 1
}

// TestAConfigurationWithFaultsRings: the janitor says so each minute.
func TestAConfigurationWithFaultsRings(t *testing.T) {
	t.Parallel()
	w := watchOf(t, "ConfigurationFaultsAlarm")
	if got := w.rings(answers(0, 30, 1, 1, 1), 30); got < 0 || got > 5 {
		t.Errorf("it rings at minute %d", got)
	}
	if got := w.rings(answers(0, 1, 1, 2, 2), 30); got >= 0 {
		t.Error("it rings for a secret that could not be read once")
	}
}

// TestThrottlesAreCountedOfTableAndIndex: DynamoDB counts an index by itself, and reads apart from writes.
func TestThrottlesAreCountedOfTableAndIndex(t *testing.T) {
	t.Parallel()
	d := deploy(t, nil)
	watched := map[string]bool{}
	for _, alarm := range ofType(t, "AWS::CloudWatch::Alarm") {
		properties := alarm.at("Properties")
		if properties.at("Namespace").String() != "AWS/DynamoDB" {
			continue
		}
		metric := properties.at("MetricName").String()
		for _, value := range properties.at("Dimensions").value.([]any) {
			metric += " " + node{value}.at("Name").String() + "=" + d.eval(node{value}.at("Value").value)
		}
		watched[metric] = true
	}
	index := template(t).at("Resources.Table.Properties.GlobalSecondaryIndexes.0.IndexName").String()
	for _, metric := range []string{"ReadThrottleEvents TableName={Table}", "WriteThrottleEvents TableName={Table}"} {
		for _, want := range []string{metric, metric + " GlobalSecondaryIndexName=" + index} {
			if !watched[want] {
				t.Errorf("no alarm watches %s, only %v", want, watched)
			}
		}
	}
}

// TestEachAlarmOfOursHasItsMetric: a metric of our own is made of log lines. What becomes of the lines is shown where
// they are written (internal/lambda).
func TestEachAlarmOfOursHasItsMetric(t *testing.T) {
	t.Parallel()
	made := map[string]bool{}
	for _, filter := range ofType(t, "AWS::Logs::MetricFilter") {
		m := filter.at("Properties.MetricTransformations.0")
		made[m.at("MetricNamespace").String()+" "+m.at("MetricName").String()] = true
	}
	for name, alarm := range ofType(t, "AWS::CloudWatch::Alarm") {
		namespace := alarm.at("Properties.Namespace").String()
		if strings.Contains(namespace, "Ferry/") && !made[namespace+" "+alarm.at("Properties.MetricName").String()] {
			t.Errorf("%s watches what nobody reports", name)
		}
	}
}

// TestAlarmsLeadToTheRunbook: each alarm names an entry, and each is there.
func TestAlarmsLeadToTheRunbook(t *testing.T) {
	t.Parallel()
	headings := map[string]bool{}
	for line := range strings.Lines(string(readRoot(t, "docs/runbook.md"))) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			headings[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = true
		}
	}
	anchor := regexp.MustCompile(`See docs/runbook\.md#([a-z-]+)$`)
	alarms := ofType(t, "AWS::CloudWatch::Alarm")
	for name, alarm := range alarms {
		found := anchor.FindStringSubmatch(alarm.at("Properties.AlarmDescription").String())
		if found == nil || !headings[found[1]] {
			t.Errorf("%s: no entry in docs/runbook.md for %q", name, alarm.at("Properties.AlarmDescription"))
		}
		if alarm.at("Properties.TreatMissingData").value == nil || alarm.at("Properties.AlarmActions").value == nil {
			t.Errorf("%s does not say what missing data mean, or tells nobody", name)
		}
	}
	for _, metric := range []string{
		"5XXError", "Throttles", "Errors", "OverdueOperations", "ExecutionsFailed", "Invocations", "AuditsFailed", "AuditsCompleted", "ConfigurationFaults",
	} {
		watched := false
		for _, alarm := range alarms {
			watched = watched || alarm.at("Properties.MetricName").String() == metric
		}
		if !watched {
			t.Errorf("no alarm watches %s", metric)
		}
	}
}
