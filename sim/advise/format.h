// A setting as configuration to paste, in the words of the system that shares the GPU.
//
// Leaves out: how the system itself is installed, the programs' own images and commands (placeholders in angle brackets), and more GPUs
// than one. Documents, read on 2026-11-29: NVIDIA/k8s-device-plugin 1b826ac (api/config/v1), kubernetes-sigs' DRA driver
// 2240711 (api/nvidia.com/resource/v1beta1), KAI-Scheduler 72de64f (docs/gpu-sharing), HAMi 4707fb0 (examples/nvidia), mig-parted
// bd7160f (api/spec/v1), Slurm's gres.conf(5), NVIDIA's MIG User Guide and Multi-Process Service documentation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/advise/setting.h"

namespace corun::sim {

enum class Format : std::uint8_t { device_plugin, dra, kai, hami, gpu_operator, slurm, nvidia_smi, mps };

/// "k8s-device-plugin", "dra", "kai", "hami", "gpu-operator", "slurm", "nvidia-smi", "mps".
std::vector<std::string> format_names();
/// Throws InputError for another name.
Format parse_format(const std::string& name);

/// YAML, lines of Slurm's files, or commands of a shell.  Throws InputError for a setting that the system cannot express, with why and
/// which format can.
std::string configuration(Format format, const Setting& setting, const Trace& trace);

}  // namespace corun::sim
