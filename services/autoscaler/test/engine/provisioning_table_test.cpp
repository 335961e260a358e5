// Claims, from NodePools to instances, as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/testing/text.hpp"
#include "test/engine/script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace provisioning_table_test {

using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::trimmed;

// Karpenter v1.14.1: pkg/controllers/{provisioning,static,nodeclaim,node/termination,disruption}; its AWS provider v1.14.0:
// pkg/controllers/{interruption,nodeclaim/garbagecollection}/suite_test.go.
// commands of script.hpp, by ";" | what the last one leads to, without promises, by ","; - = nothing
constexpr const char* kRows = R"(
# Provisioning Daemonsets should account for daemonsets
pool p types=c2,c4 ; daemonset kube-system/a milli=600 ; want w/1 1x0 milli=1500 | launch p-00001 c4 on-demand
# Provisioning Daemonsets should not schedule if daemonset overhead is too large
pool p types=c2,c4 ; daemonset kube-system/a milli=10000 ; want w/1 1x0 milli=100 | -
# Provisioning Daemonsets should ignore daemonsets without matching tolerations
pool p types=c2,c4 taint=gpu ; daemonset kube-system/a milli=600 ; want w/1 1x0 milli=1500 tolerate=gpu | launch p-00001 c2 on-demand
pool p types=c2,c4 taint=gpu ; daemonset kube-system/a milli=600 tolerate-all=1 ; want w/1 1x0 milli=1500 tolerate=gpu | launch p-00001 c4 on-demand
# Provisioning Daemonsets should ignore daemonsets with an invalid selector
pool p types=c2,c4 ; daemonset kube-system/a milli=600 select=node=invalid ; want w/1 1x0 milli=1500 | launch p-00001 c2 on-demand
# Provisioning Daemonsets should filter out daemonsets based on instance type requirements
pool p types=c2,c4 ; daemonset kube-system/a milli=600 affinity=karpenter.k8s.aws/instance-family=c ; want w/1 1x0 milli=1500 | launch p-00001 c4 on-demand
pool p types=c2,c4 ; daemonset kube-system/a milli=600 affinity=karpenter.k8s.aws/instance-family=g ; want w/1 1x0 milli=1500 | launch p-00001 c2 on-demand
# Provisioning should ignore NodePools that are deleting
pool p types=a8 ; pool-gone p ; want w/1 1x8 | -
pool p types=a8 ; want w/1 1x8 ; pool-gone p ; want v/1 1x8 | -
# Scheduling Custom Constraints Scheduling Logic should not schedule pods with nodePool which is not ready
pool p types=a8 unready=NodeClassNotReady ; want w/1 1x8 | -
pool p types=a8 unready=NodeClassNotReady weight=9 ; pool q types=h8 ; want w/1 1x8 | launch q-00001 h8 on-demand
# Provisioning Multiple NodePools should schedule to an explicitly selected NodePool
pool p types=h8 ; pool q types=a8 ; want w/1 1x8 select=karpenter.sh/nodepool=p | launch p-00001 h8 on-demand
# Provisioning Multiple NodePools should schedule to a NodePool by labels
pool p types=h8 label=team=x ; pool q types=a8 ; want w/1 1x8 select=team=x | launch p-00001 h8 on-demand
# Provisioning Multiple NodePools Weighted NodePools should schedule to the nodepool with the highest priority always
pool p types=a8 weight=20 ; pool q types=a8 weight=100 ; pool r types=a8 ; want w/1 1x8 | launch q-00001 a8 on-demand
# Provisioning Multiple NodePools Weighted NodePools should schedule to explicitly selected nodepool even if other nodePools are higher priority
pool p types=a8 weight=20 ; pool q types=a8 weight=100 ; want w/1 1x8 select=karpenter.sh/nodepool=p | launch p-00001 a8 on-demand
# Provisioning Resource Limits should not schedule when limits are exceeded
pool p types=a8 gpus=8 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=8 ; want v/1 1x1 | -
# Provisioning Resource Limits should partially schedule if limits would be exceeded
pool p types=g1 gpus=1 ; tick 1 ; want w/1 1x1 ; want v/1 1x1 | -
pool p types=a8,g1 gpus=4 ; want w/1 1x1 | launch p-00001 g1 on-demand
# Provisioning Resource Limits should not schedule if limits would be exceeded (GPU)
pool p types=a8 gpus=7 ; want w/1 1x1 | -
# Provisioning Resource Limits should schedule again once an instance of the NodePool is gone (no upstream test)
pool p types=a8 gpus=8 ; want w/1 1x8 ; up p-00001 i-1 n1 ; want v/1 1x8 ; unwant w ; tick 1 ; cloud i-1 stopped=1 | claim p-00001 Gone i-1 stopped=1, launch p-00002 a8 on-demand
# Static Provisioning Controller Reconcile should create nodeclaims when current node count is less than desired replicas
pool s types=h8,a8 replicas=2 | launch s-00001 a8 on-demand, launch s-00002 a8 on-demand
# Static Provisioning Controller Reconcile should create additional nodeclaims to reach desired replicas
pool s types=a8 replicas=1 ; pool s types=a8 replicas=2 | launch s-00002 a8 on-demand
# Static Provisioning Controller Reconcile should not create additional nodeclaims
pool s types=a8 replicas=1 ; up s-00001 i-1 n1 ; tick 60 | -
# Static Provisioning Controller Reconcile should handle zero replicas
pool s types=a8 replicas=0 | -
# Static Provisioning Controller Reconcile should return early if nodepool root condition is not true
pool s types=a8 replicas=2 unready=NodeClassNotReady | -
# Static Provisioning Controller Reconcile should not create additional nodeclaims when node limits are reached
pool s types=a8 replicas=3 nodes=1 | launch s-00001 a8 on-demand
# Provisioning StaticNodePool should not create NodeClaims for StaticNodePool
pool s types=a8 replicas=1 ; want w/1 2x8 | -
# Static Deprovisioning Controller Reconcile should terminate excess nodeclaims when current count exceeds desired replicas
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; up s-00002 i-2 n2 ; node n2 i-2 pods=1 ; pool s types=a8 replicas=1 | drain n1 Empty
# Static Deprovisioning Controller Reconcile should handle zero replicas by terminating all nodeclaims
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; up s-00002 i-2 n2 ; pool s types=a8 replicas=0 | drain n1 Empty, drain n2 Empty
# Launch should delete the nodeclaim if InsufficientCapacity is returned from the cloudprovider
pool p types=a8,h8 ; want w/1 1x8 ; ice p-00001 | claim p-00001 Failed, launch p-00002 h8 on-demand
# Liveness Liveness should delete the nodeClaim when the Node hasn't registered past the registration timeout
pool p types=a8 ; want w/1 1x8 ; launched p-00001 i-1 ; tick 899 | -
pool p types=a8 ; cloud i-1 claim=p-00007 pool=p type=a8 node=n1 ; tick 900 | terminate p-00007 i-1
# Liveness shouldn't delete the nodeClaim when the node has registered past the registration timeout
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 9000 | -
# GarbageCollection should delete the NodeClaim when the Node is there in a NotReady state and the instance is gone
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; node n1 i-1 notready ; cloud-lost i-1 ; tick 600 | claim p-00001 Gone i-1 stopped=0
# GarbageCollection should delete the nodeClaim when the instance is gone (no upstream test)
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; node-gone n1 ; cloud-lost i-1 ; tick 600 | claim p-00001 Gone i-1 stopped=0
# GarbageCollection should not delete nodeClaims when the instance is listed again in time (no upstream test)
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; node n1 i-1 notready ; cloud-lost i-1 ; tick 599 ; cloud i-1 ; tick 600 | -
# GarbageCollection should drain an empty instance whose NodeClaim is not known (no upstream test)
pool p types=a8 after=60 ; cloud i-1 claim=p-00009 pool=p type=a8 node=n1 ; node n1 i-1 ; tick 60 | drain n1 Empty
# GarbageCollection should not delete an instance if it was not launched by a NodeClaim
pool p types=a8 after=60 ; cloud i-1 type=a8 node=n1 ; node n1 i-1 ; tick 900 | -
# Termination Reconciliation should not delete nodes until all pods are deleted
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 3600 ; node n1 i-1 pods=1 cordoned | -
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 3600 ; node n1 i-1 pods=1 cordoned ; node n1 i-1 cordoned | terminate p-00001 i-1
# Consolidation TTL should not consolidate if the action becomes invalid during the node TTL wait
pool p types=a8 after=60 ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; node n1 i-1 pods=1 cordoned | lifted n1
# InterruptionHandling Processing Messages should delete the NodeClaim when receiving a spot interruption warning
pool p types=a8 markets=spot ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; notice n1 120 | drain n1 SpotInterruption
# InterruptionHandling should not delete the NodeClaim when receiving a rebalance recommendation (no upstream test)
pool p types=a8 markets=spot never ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; notice n1 120 rebalance | -
# InterruptionHandling Processing Messages should delete the NodeClaim when receiving a scheduled change message
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; notice n1 900 maintenance | drain n1 ScheduledMaintenance
# Expiration Expiration should remove nodeclaims that are expired
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; tick 3300 | drain n1 Expired
# Drift NodePool Static Drift should detect drift on changes to the static fields
pool p types=a8 never hash=a ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; pool p types=a8 never hash=b | drain n1 Drifted
# Drift NodeRequirement Drift should return drifted if the nodePool node requirement is updated
pool p types=a8 never rule=team=x ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; pool p types=a8 never rule=team=y | drain n1 Drifted
# Drift NodeRequirement Drift should return drifted if a new node requirement is added
pool p types=a8 never rule=team=x ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; pool p types=a8 never rule=team=x rule=disk=nvme | drain n1 Drifted
# Drift NodeRequirement Drift should return drifted if a node requirement is reduced
pool p types=a8 never rule=team=x,y ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; pool p types=a8 never rule=team=y | drain n1 Drifted
# Drift NodeRequirement Drift should not return drifted if a node requirement is expanded
pool p types=a8 never rule=team=x ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; pool p types=a8 never rule=team=x,y | -
# Drift NodeRequirement Drift should not return drifted if a node requirement set to Exists
pool p types=a8 never rule=team=x ; want w/1 1x8 ; up p-00001 i-1 n1 ; unwant w ; tick 300 ; pool p types=a8 never rule=team | -
# Scheduling In-Flight Nodes should not launch a second node if there is an in-flight node that can support the pod
pool p types=a8 ; want w/1 1x4 ; want v/1 1x4 | -
# Scheduling In-Flight Nodes should launch a second node if a pod won't fit on the existingNodes node
pool p types=a8 ; want w/1 1x4 ; want v/1 1x5 | launch p-00002 a8 on-demand
# Scheduling In-Flight Nodes should launch a second node if a pod isn't compatible with the existingNodes node (node selector)
pool p types=a8 zones=z1,z2 ; want w/1 1x4 select=topology.kubernetes.io/zone=z1 ; want v/1 1x4 select=topology.kubernetes.io/zone=z2 | launch p-00002 a8 on-demand z2
# Provisioning Resource Limits should not schedule if limits would be exceeded (node)
pool p types=a8 nodes=1 ; want w/1 1x8 ; want v/1 1x8 | -
# Provisioning StaticNodePool should still provision dynamic NodeClaims when there are both Static and Dynamic NodePools
pool s types=a8 replicas=1 ; pool p types=h8 ; want w/1 2x8 | launch p-00002 h8 on-demand, launch p-00003 h8 on-demand
# Provisioning should provision nodes
pool p types=a8 ; want w/1 1x3 | launch p-00001 a8 on-demand
# Provisioning Should provision nodes for multiple pods
pool p types=a8 ; want w/1 3x5 | launch p-00001 a8 on-demand, launch p-00002 a8 on-demand, launch p-00003 a8 on-demand
# Provisioning should provision nodes for accelerators
pool p types=c2,g1 ; want w/1 1x1 | launch p-00001 g1 on-demand
# Provisioning should provision nodes for pods with supported node selectors
pool p types=c2,a8 zones=z1,z2 ; want w/1 1x0 milli=500 select=topology.kubernetes.io/zone=z2 select=node.kubernetes.io/instance-type=a8 | launch p-00001 a8 on-demand z2
# Provisioning should provision nodes for pods with supported node affinities
pool p types=a8 zones=z1,z2 ; want w/1 1x8 affinity=topology.kubernetes.io/zone=z2,z9 | launch p-00001 a8 on-demand z2
# Provisioning should mark pod as unschedulable if there are no valid nodepools
want w/1 1x8 | -
# Provisioning Labels should label nodes with labels in the kubernetes domains
pool p types=a8 label=kubernetes.io/rack=r7 ; want w/1 1x8 select=kubernetes.io/rack=r7 | launch p-00001 a8 on-demand
# Provisioning Labels should label nodes with labels in the subdomain from kubernetes domains
pool p types=a8 label=rack.kops.k8s.io/row=r7 ; want w/1 1x8 select=rack.kops.k8s.io/row=r7 | launch p-00001 a8 on-demand
# Scheduling Custom Constraints Constraints Validation should not schedule pods that have node selectors with restricted labels
pool p types=a8 ; want w/1 1x8 select=kubernetes.io/hostname=n7 | -
# Scheduling Custom Constraints Constraints Validation should not schedule pods that have node selectors with restricted domains
pool p types=a8 ; want w/1 1x8 select=karpenter.sh/rack=r7 | -
# Scheduling Custom Constraints Constraints Validation should schedule pods that have node selectors with label in kubernetes domains
pool p types=a8 rule=kubernetes.io/rack=r7 ; want w/1 1x8 select=kubernetes.io/rack=r7 | launch p-00001 a8 on-demand kubernetes.io/rack=r7
# Scheduling Custom Constraints Constraints Validation should schedule pods that have node selectors with label in subdomain from kubernetes domains
pool p types=a8 rule=rack.k8s.io/row=r7 ; want w/1 1x8 select=rack.k8s.io/row=r7 | launch p-00001 a8 on-demand rack.k8s.io/row=r7
# Provisioning Daemonsets should account for daemonsets (with startup taint)
pool p types=c2,c4 startup=cni ; daemonset kube-system/a milli=600 ; want w/1 1x0 milli=1500 | launch p-00001 c4 on-demand
# Provisioning Daemonsets should be able to schedule pods if resource requests and limits are not defined
pool p types=c2,c4 ; daemonset kube-system/a ; want w/1 1x0 | launch p-00001 c2 on-demand
# Provisioning Daemonsets should ignore daemonsets when no instance types meet the daemonset requirements
pool p types=c2,c4 ; daemonset kube-system/a milli=600 affinity=node.kubernetes.io/instance-type=none ; want w/1 1x0 milli=1500 | launch p-00001 c2 on-demand
# Provisioning Daemonsets should account for daemonsets with a custom label nodeSelector that matches the nodepool
pool p types=c2,c4 label=team=x ; daemonset kube-system/a milli=600 select=team=x ; want w/1 1x0 milli=1500 | launch p-00001 c4 on-demand
# Provisioning NodeClaim Creation should not double-count daemon overhead when multiple pods are scheduled to the same nodeclaim
pool p types=c2,c4 ; daemonset kube-system/a milli=400 ; want w/1 2x0 milli=700 | launch p-00001 c2 on-demand
# Provisioning Resource Limits should not schedule to a nodepool after a scheduling round if limits would be exceeded
pool p types=c2 cpu=3 ; want w/1 1x0 milli=1400 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; want v/1 1x0 milli=1400 | -
# Instance Type Selection MinValues should schedule respecting the minValues from instance-type requirements
pool p types=c2,c4 min-values=node.kubernetes.io/instance-type=2 ; want w/1 1x0 milli=500 | launch p-00001 c2 on-demand
# Instance Type Selection MinValues schedule should fail if minimum number of InstanceTypes is not met as per the minValues in the requirement
pool p types=c2,c4 min-values=node.kubernetes.io/instance-type=3 ; want w/1 1x0 milli=500 | -
# Provisioning MinValuesPolicy with instance type requirements with MinValuesPolicy set to Strict should not schedule when minValues requirement is not met
pool p types=c2,c4 min-values=node.kubernetes.io/instance-type=2 ; want w/1 1x0 milli=2500 | -
# Provisioning MinValuesPolicy with zone requirements with MinValuesPolicy set to Strict should not schedule when zone minValues requirement is not met
pool p types=c2 zones=z1,z2 min-values=topology.kubernetes.io/zone=3 ; want w/1 1x0 milli=500 | -
# Instance Type Selection MinValues should schedule and respect multiple requirement keys with minValues
pool p types=c2,c4 zones=z1,z2 min-values=node.kubernetes.io/instance-type=2 min-values=topology.kubernetes.io/zone=2 ; want w/1 1x0 milli=500 | launch p-00001 c2 on-demand z1
pool p types=c2,c4 zones=z1,z2 min-values=node.kubernetes.io/instance-type=2 min-values=topology.kubernetes.io/zone=3 ; want w/1 1x0 milli=500 | -
# Static Provisioning Controller Reconcile should return early if nodepool is being deleted
pool s types=a8 replicas=2 unready=NodeClassNotReady ; pool-gone s ; tick 60 | -
# Static Provisioning Controller Reconcile should return early if current node count exceeds desired replicas
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; up s-00002 i-2 n2 ; node n1 i-1 pods=1 ; node n2 i-2 pods=1 ; pool s types=a8 replicas=1 ; tick 5 | -
# Static Deprovisioning Controller Reconcile should return early if current node count is less than or equal to desired replicas
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; up s-00002 i-2 n2 ; tick 600 | -
# Static Deprovisioning Controller Reconcile should handle no active nodeclaims gracefully
pool s types=a8 replicas=2 unready=NodeClassNotReady ; pool s types=a8 replicas=0 ; tick 60 | -
# Static Deprovisioning Controller Reconcile Deprovision Candidate Selection should prioritize nodeclaims that have unresolved providerID
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; pool s types=a8 replicas=1 | -
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; pool s types=a8 replicas=1 ; up s-00002 i-2 n2 | drain n2 Empty
# Static Deprovisioning Controller Reconcile Deprovision Candidate Selection should prioritize empty nodes (with only daemonset pods) for termination
pool s types=a8 replicas=2 ; up s-00001 i-1 n1 ; up s-00002 i-2 n2 ; node n1 i-1 pods=1 ; pool s types=a8 replicas=1 | drain n2 Empty
# surplus nodes of a static NodePool with pods are kept until they are empty (no upstream test)
pool s types=a8 replicas=3 ; up s-00001 i-1 n1 ; up s-00002 i-2 n2 ; up s-00003 i-3 n3 ; node n1 i-1 pods=1 ; node n2 i-2 pods=1 ; pool s types=a8 replicas=1 | drain n3 Empty
# Expiration should not remove the NodeClaims when expiration is disabled
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 9000000 | -
# Expiration should not remove non-expired NodeClaims
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 3599 | -
# Expiration should delete NodeClaims if the nodeClaim is expired but the node isn't
pool p types=a8 never expire=3600 ; want w/1 1x8 ; tick 3000 ; up p-00001 i-1 n1 ; unwant w ; tick 600 | drain n1 Expired
# Expiration shouldn't expire the same NodeClaim multiple times
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; tick 3600 ; tick 3601 | -
# GarbageCollection should not delete an instance if it is within the NodeClaim resolution window (1m)
pool p types=a8 ; cloud i-1 claim=p-00007 pool=p type=a8 node=n1 ; tick 60 | -
# GarbageCollection should not delete all instances if they all have NodeClaim owners
pool p types=a8 never ; want w/1 2x8 ; up p-00001 i-1 n1 ; up p-00002 i-2 n2 ; unwant w ; tick 9000 | -
# GarbageCollection shouldn't delete the NodeClaim when the Node is there in a Ready state and the instance is gone
pool p types=a8 never ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; unwant w ; cloud-lost i-1 ; tick 600 | -
# GarbageCollection should delete many NodeClaims when the Nodes are there in a NotReady state and the instances are gone
pool p types=a8 never ; want w/1 2x8 ; up p-00001 i-1 n1 ; up p-00002 i-2 n2 ; unwant w ; node n1 i-1 notready ; node n2 i-2 notready ; cloud-lost i-1 ; cloud-lost i-2 ; tick 600 | claim p-00001 Gone i-1 stopped=0, claim p-00002 Gone i-2 stopped=0
# Scheduling In-Flight Nodes should not launch a second node if there is an in-flight node that can support the pod (node selectors)
pool p types=a8 zones=z1,z2 ; want w/1 1x4 select=topology.kubernetes.io/zone=z2 ; want v/1 1x3 select=topology.kubernetes.io/zone=z2 | -
# Scheduling In-Flight Nodes should launch a second node if an in-flight node is terminating
pool p types=a8 ; want w/1 1x4 ; up p-00001 i-1 n1 ; unwant w ; cloud i-1 stopped=1 ; want v/1 1x3 | launch p-00002 a8 on-demand
# Scheduling In-Flight Nodes Taints should assume pod will schedule to a tainted node with a custom startup taint
pool p types=a8 startup=cni ; want w/1 1x4 ; launched p-00001 i-1 ; want v/1 1x3 | -
# Scheduling In-Flight Nodes should pack in-flight nodes before launching new nodes
pool p types=a8 ; want w/1 1x3 ; want v/1 1x3 ; want u/1 1x2 | -
pool p types=a8 ; want w/1 1x3 ; want v/1 1x3 ; want u/1 2x2 | launch p-00002 a8 on-demand
# Scheduling Existing Nodes should schedule multiple pods to an existing node unowned by Karpenter
pool p types=a8 ; want w/1 3x8 room=2 | launch p-00001 a8 on-demand
# Scheduling Existing Nodes should consider a pod incompatible with an existing node but compatible with NodePool
pool p types=a8 zones=z1,z2 ; want w/1 1x8 select=topology.kubernetes.io/zone=z1 room=0 | launch p-00001 a8 on-demand z1
# Scheduling Deleting Nodes should re-schedule pods from a deleting node when pods are active
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; node n1 i-1 pods=1 ; details n1 i-1 serves ; unwant w ; tick 3600 | launch p-00002 a8 on-demand
# Scheduling Deleting Nodes should not re-schedule pods from a deleting node when pods are owned by a DaemonSet
pool p types=a8 never expire=3600 ; want w/1 1x8 ; up p-00001 i-1 n1 ; details n1 i-1 ; unwant w ; tick 300 ; tick 3300 | drain n1 Expired
)";

/// What the last command of the row leads to.
std::string outcome(const std::string& commands) {
  Script script;
  std::vector<std::string> last;
  for (const auto& line : split(commands, ';')) {
    last = script.render(script.step(script.commands(trimmed(line))));
    if (const auto broken = script.complaint(); !broken.empty()) return "BROKEN " + broken;
  }
  std::erase_if(last,
                [](const std::string& line) { return line.starts_with("promise ") || line.starts_with("withdrawn "); });
  return last.empty() ? "-" : fmt::format("{}", fmt::join(last, ", "));
}

TEST(Provisioning, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    EXPECT_EQ(outcome(cells[0]), cells[1]) << row;
  }
  EXPECT_EQ(rows.size(), 105U);
}

}  // namespace provisioning_table_test
}  // namespace qm::autoscaler::testing
