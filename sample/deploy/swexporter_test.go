package deploy

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// exporter are the objects of swexporter.yaml.
type exporter struct {
	service    corev1.Service
	policy     networkingv1.NetworkPolicy
	deployment appsv1.Deployment
}

func readExporter(t *testing.T) (e exporter) {
	t.Helper()
	readObjects(t, "swexporter.yaml", map[string]any{
		"v1 Service": &e.service, "networking.k8s.io/v1 NetworkPolicy": &e.policy, "apps/v1 Deployment": &e.deployment,
	})
	return e
}

func TestExportersManifestsBelongTogether(t *testing.T) {
	t.Parallel()
	e, of := readExporter(t), readManifests(t)
	pod := e.deployment.Spec.Template
	for what, selector := range map[string]map[string]string{
		"Deployment": e.deployment.Spec.Selector.MatchLabels, "Service": e.service.Spec.Selector, "NetworkPolicy": e.policy.Spec.PodSelector.MatchLabels,
	} {
		if len(selector) == 0 || !maps.Equal(selector, pod.Labels) {
			t.Errorf("%s selects %v, the pods have %v", what, selector, pod.Labels)
		}
	}
	if maps.Equal(pod.Labels, of.set.Spec.Template.Labels) {
		t.Errorf("the exporter has the labels of the instances, %v", pod.Labels)
	}
	container := pod.Spec.Containers[0]
	port, service := container.Ports[0], e.service.Spec.Ports[0]
	allowed := e.policy.Spec.Ingress[0].Ports[0].Port.StrVal
	if service.TargetPort.StrVal != port.Name || service.Port != port.ContainerPort || allowed != port.Name || container.LivenessProbe.HTTPGet.Port.StrVal != port.Name {
		t.Errorf("the container has %v, the service %v, and %q is allowed", port, service, allowed)
	}
	if name := container.EnvFrom[0].ConfigMapRef.Name; name != of.config.Name {
		t.Errorf("settings are those of %s, want %s", name, of.config.Name)
	}
	if got, want := pod.Spec.Volumes[0].Secret.SecretName, of.set.Spec.Template.Spec.Volumes[0].Secret.SecretName; got != want {
		t.Errorf("credentials are those of %s, want %s", got, want)
	}
	wantConfined(t, pod.Spec)
}

// TestExportersCommand runs the container's command, and reads the metrics.
func TestExportersCommand(t *testing.T) {
	t.Parallel()
	container := readExporter(t).deployment.Spec.Template.Spec.Containers[0]
	s := set(t)
	here := strings.NewReplacer("$(SWCTL_ZK)", s.zk, "$(SWCTL_SERVER_TYPE)", serverType, "/etc/zookeeper/auth", s.credentials, ":9468", s.probes)
	command := slices.Concat(container.Command, container.Args)
	for k := range command {
		command[k] = here.Replace(command[k])
	}
	command[0] = filepath.Join(programs, command[0])
	s.serves(t, command, container.LivenessProbe.HTTPGet.Path, func(ctx context.Context) {
		if text := s.get(ctx, "/metrics"); !strings.HasPrefix(text, "200 ") || !strings.Contains(text, `singleworker_group_up{server_type="billing"}`) {
			t.Errorf("/metrics: %s", text)
		}
	})
}
