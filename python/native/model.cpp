#include "python/native/bind.h"
#include "traces/json/trace_json.h"
#include "traces/model/occupancy.h"

namespace corun::python {
namespace {

void bind_gpu(py::module_& m) {
  py::class_<SmLimits, std::shared_ptr<SmLimits>>(m, "SmLimits", "What one SM holds.")
      .def_readonly("max_threads", &SmLimits::max_threads)
      .def_readonly("max_warps", &SmLimits::max_warps)
      .def_readonly("max_blocks", &SmLimits::max_blocks)
      .def_readonly("warp_size", &SmLimits::warp_size)
      .def_readonly("registers", &SmLimits::registers)
      .def_readonly("threads_per_block", &SmLimits::threads_per_block)
      .def_readonly("shared_memory_bytes", &SmLimits::shared_memory_bytes)
      .def_readonly("shared_memory_per_block_bytes", &SmLimits::shared_memory_per_block_bytes);

  py::class_<Gpu, std::shared_ptr<Gpu>> gpu(m, "Gpu", "A GPU as its description has it.");
  gpu.def_readonly("name", &Gpu::name)
      .def_readonly("product", &Gpu::product)
      .def_readonly("architecture", &Gpu::architecture)
      .def_readonly("sms", &Gpu::sms)
      .def_readonly("sms_per_tpc", &Gpu::sms_per_tpc)
      .def_property_readonly("tpcs", &Gpu::tpcs)
      .def_readonly("gpc_of_tpc", &Gpu::gpc_of_tpc)
      .def_property_readonly("sm", [](const std::shared_ptr<Gpu>& g) { return part_of(g, &g->sm); })
      .def_readonly("task_slots", &Gpu::task_slots)
      .def_readonly("priority_levels", &Gpu::priority_levels)
      .def_readonly("host_channels", &Gpu::host_channels)
      .def_readonly("channel_depth", &Gpu::channel_depth)
      .def_readonly("copy_engines", &Gpu::copy_engines)
      .def_readonly("dispatch_interval_ps", &Gpu::dispatch_interval)
      .def_readonly("launch_call_ps", &Gpu::launch_call)
      .def_readonly("launch_latency_ps", &Gpu::launch_latency)
      .def_readonly("stream_gap_ps", &Gpu::stream_gap)
      .def_readonly("graph_gap_ps", &Gpu::graph_gap)
      .def_readonly("time_slice_ps", &Gpu::time_slice)
      .def_readonly("context_switch_ps", &Gpu::context_switch)
      .def_readonly("completion_notice_ps", &Gpu::completion_notice)
      .def_readonly("progress_read_ps", &Gpu::progress_read)
      .def_readonly("persistent_task_ps", &Gpu::persistent_task)
      .def_readonly("stop_flag_ps", &Gpu::stop_flag)
      .def_readonly("memory_bytes", &Gpu::memory_bytes)
      .def_readonly("l2_bytes", &Gpu::l2_bytes)
      .def_readonly("clock_hz", &Gpu::clock_hz)
      .def_readonly("dram_bytes_per_second", &Gpu::dram_bytes_per_second)
      .def_readonly("copy_bytes_per_second", &Gpu::copy_bytes_per_second);
  as_record(gpu, {"name", "product", "sms"});

  py::class_<Topology, std::shared_ptr<Topology>>(m, "Topology",
                                                  "The GPU, and what the backend can do on it.")
      .def_property_readonly("gpu", [](const std::shared_ptr<Topology>& t) { return part_of(t, &t->gpu); })
      .def_readonly("capabilities", &Topology::capabilities);

  m.def(
      "blocks_per_sm",
      [](const Kernel& kernel, const Gpu& g) {
        return max_active_blocks(capacity_of(g.sm), demand_of(kernel, g.sm));
      },
      py::arg("kernel"), py::arg("gpu"), "How many blocks of the kernel an empty SM holds.");
  m.def("gpus", &gpu_names, "Names of the built-in GPU descriptions, sorted.");
}

}  // namespace

void bind_model(py::module_& m) {
  bind_gpu(m);

  py::class_<Kernel, std::shared_ptr<Kernel>> kernel(m, "Kernel", "A kernel as a launch sees it.");
  const auto dimensions = [](Dim3 d) { return py::make_tuple(d.x, d.y, d.z); };
  kernel.def_readonly("name", &Kernel::name)
      .def_property_readonly("grid", [=](const Kernel& k) { return dimensions(k.grid); })
      .def_property_readonly("block", [=](const Kernel& k) { return dimensions(k.block); })
      .def_property_readonly("cluster", [=](const Kernel& k) { return dimensions(k.cluster); })
      .def_property_readonly("blocks", &Kernel::blocks)
      .def_property_readonly("threads_per_block", &Kernel::threads_per_block)
      .def_readonly("registers_per_thread", &Kernel::registers_per_thread)
      .def_property_readonly("shared_memory_bytes", &Kernel::shared_memory_bytes)
      .def_readonly("idempotent", &Kernel::idempotent)
      .def_readonly("ptx", &Kernel::ptx)
      .def_readonly("solo_time_ps", &Kernel::solo_time);
  as_record(kernel, {"name", "grid", "block"});

  bind_enum<ServiceClass>(m, "ServiceClass", {"real_time", "best_effort"});
  py::class_<ClientStream, std::shared_ptr<ClientStream>>(m, "ClientStream",
                                                          "A client's stream; None: as the client.")
      .def_readonly("priority", &ClientStream::priority)
      .def_readonly("tpc_mask", &ClientStream::tpc_mask);
  py::class_<Client, std::shared_ptr<Client>> client(m, "Client", "A client as the trace describes it.");
  client.def_readonly("name", &Client::name)
      .def_readonly("process", &Client::process)
      .def_readonly("service_class", &Client::service_class)
      .def_readonly("priority", &Client::priority)
      .def_readonly("tpc_mask", &Client::tpc_mask)
      .def_property_readonly("streams",
                             [](const std::shared_ptr<Client>& c) {
                               py::list streams;
                               for (const ClientStream& s : c->streams) streams.append(part_of(c, &s));
                               return streams;
                             })
      .def_readonly("memory_bytes", &Client::memory_bytes)
      .def_readonly("quota", &Client::quota)
      .def_readonly("reservation", &Client::reservation)
      .def_readonly("deadline_ps", &Client::deadline);
  as_record(client, {"name", "service_class"});
}

}  // namespace corun::python
