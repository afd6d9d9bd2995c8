package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"

	"github.com/swjobs/singleworker/singleworker"
)

// manifests are the objects of kubernetes.yaml.
type manifests struct {
	config  corev1.ConfigMap
	service corev1.Service
	budget  policyv1.PodDisruptionBudget
	set     appsv1.StatefulSet
}

// readManifests reads kubernetes.yaml as the API server would with strict validation: an unknown or
// doubled field is an error.
func readManifests(t *testing.T) manifests {
	t.Helper()
	var all manifests
	readObjects(t, "kubernetes.yaml", map[string]any{
		"v1 ConfigMap": &all.config, "v1 Service": &all.service,
		"policy/v1 PodDisruptionBudget": &all.budget, "apps/v1 StatefulSet": &all.set,
	})
	return all
}

// readObjects reads a file that has exactly those objects.
func readObjects(t *testing.T, file string, missing map[string]any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var kind metav1.TypeMeta
		if err := strict.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		name := kind.APIVersion + " " + kind.Kind
		object, ok := missing[name]
		if !ok {
			t.Fatalf("an object that no test looks at, or twice: %s", name)
		}
		if err := strict.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(missing, name)
	}
	for name := range missing {
		t.Errorf("no %s", name)
	}
	if t.Failed() {
		t.FailNow()
	}
}

func TestManifestsBelongTogether(t *testing.T) {
	t.Parallel()
	m := readManifests(t)
	pod := m.set.Spec.Template
	for what, selector := range map[string]map[string]string{
		"StatefulSet": m.set.Spec.Selector.MatchLabels, "Service": m.service.Spec.Selector,
		"PodDisruptionBudget": m.budget.Spec.Selector.MatchLabels,
		"spread":              pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if len(selector) == 0 || !maps.Equal(selector, pod.Labels) {
			t.Errorf("%s selects %v, the pods have %v", what, selector, pod.Labels)
		}
	}
	if m.set.Spec.ServiceName != m.service.Name || m.service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the service %q of the StatefulSet is not the headless one, %q", m.set.Spec.ServiceName, m.service.Name)
	}
	if m.budget.Spec.MaxUnavailable.IntValue() != 1 || *m.set.Spec.Replicas < 2 {
		t.Errorf("at most %v of %d unavailable", m.budget.Spec.MaxUnavailable, *m.set.Spec.Replicas)
	}
	container := pod.Spec.Containers[0]
	ports := make(map[string]int32)
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	for what, probe := range map[string]struct {
		of   *corev1.Probe
		path string
	}{"liveness": {container.LivenessProbe, "/livez"}, "readiness": {container.ReadinessProbe, "/readyz"}} {
		if get := probe.of.HTTPGet; get.Path != probe.path || ports[get.Port.StrVal] == 0 {
			t.Errorf("%s probe asks %s at %v; ports %v", what, get.Path, get.Port, ports)
		}
	}
	const toExit = 5 * time.Second // what Run waits after the grace
	if grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= singleworker.DefaultStopGrace+toExit {
		t.Errorf("the pod is killed after %v, before its runs may end", grace)
	}
}

func TestPodIsConfined(t *testing.T) {
	t.Parallel()
	wantConfined(t, readManifests(t).set.Spec.Template.Spec)
}

// wantConfined expects that a pod has no rights but to read the secret.
func wantConfined(t *testing.T, spec corev1.PodSpec) {
	t.Helper()
	container := spec.Containers[0]
	if user := spec.SecurityContext; !*user.RunAsNonRoot || *user.RunAsUser == 0 || user.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod: %v", user)
	}
	if c := container.SecurityContext; *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || c.Capabilities.Drop[0] != "ALL" {
		t.Errorf("container: %v", c)
	}
	if *spec.AutomountServiceAccountToken {
		t.Error("the pod can speak to the API server")
	}
	secret := spec.Volumes[0].Secret
	if *secret.DefaultMode != 0o440 || *spec.SecurityContext.FSGroup != *spec.SecurityContext.RunAsGroup || !container.VolumeMounts[0].ReadOnly {
		t.Errorf("the secret has mode %04o, for group %v", *secret.DefaultMode, spec.SecurityContext.FSGroup)
	}
	for _, env := range container.Env {
		if env.ValueFrom == nil {
			t.Errorf("%s is set here", env.Name)
		}
	}
}

// TestContainerCommand runs the container's command, until it is ready, and stops it.
func TestContainerCommand(t *testing.T) {
	t.Parallel()
	m := readManifests(t)
	container := m.set.Spec.Template.Spec.Containers[0]
	const id = "billing-0"
	s := set(t)
	here := strings.NewReplacer("$(SWCTL_ZK)", s.zk, "$(SWCTL_SERVER_TYPE)", serverType, "$(POD_NAME)", id,
		"/etc/zookeeper/auth", s.credentials, ":8081", s.probes)
	command := slices.Concat(container.Command, container.Args)
	for k := range command {
		command[k] = here.Replace(command[k])
	}
	command[0] = filepath.Join(programs, command[0])
	s.runs(t, command, id)
}
