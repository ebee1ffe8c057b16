#include "python/native/bind.h"

namespace corun::python {
namespace {

py::list launches(const SnapshotObject& snapshot, std::span<const LaunchId> ids) {
  py::list list;
  for (LaunchId id : ids) list.append(LaunchObject{snapshot.get().launch(id), snapshot.lease->owner});
  return list;
}

/// What a copy moves or an allocation takes.
std::uint64_t bytes_of(const LaunchView& launch) {
  if (!launch.operation) return launch.bytes;
  return std::visit(
      [](const auto& what) -> std::uint64_t {
        if constexpr (requires { what.bytes; })
          return what.bytes;
        else
          return 0;
      },
      launch.operation->what);
}

void bind_launches(py::module_& m) {
  bind_enum<LaunchState>(m, "LaunchState", {"pending", "submitted", "draining", "stopping", "finished"});

  py::class_<LaunchId> id(m, "LaunchId", "One execution of one operation; `serial` is unique in a run.");
  id.def(py::init([](std::uint32_t slot, std::uint32_t serial) { return LaunchId{slot, serial}; }),
         py::arg("slot"), py::arg("serial"))
      .def_readonly("slot", &LaunchId::slot)
      .def_readonly("serial", &LaunchId::serial);
  as_record(id, {"slot", "serial"});
  id.def("__hash__", [](LaunchId l) { return l.serial; });

  py::class_<LaunchObject> view(m, "LaunchView", "A launch as it was when the snapshot was taken.");
  view.def_property_readonly("id", [](const LaunchObject& l) { return l.view.id; })
      .def_property_readonly("client", [](const LaunchObject& l) { return l.view.client; })
      .def_property_readonly("stream", [](const LaunchObject& l) { return l.view.stream; })
      .def_property_readonly("op", [](const LaunchObject& l) { return l.view.op; })
      .def_property_readonly("request", [](const LaunchObject& l) { return l.view.request; })
      .def_property_readonly("kernel_id", [](const LaunchObject& l) { return l.view.kernel_id; })
      .def_property_readonly(
          "kernel",
          [](const LaunchObject& l) { return l.view.kernel ? part_of(l.owner, l.view.kernel) : nullptr; })
      .def_property_readonly("nodes", [](const LaunchObject& l) { return l.view.nodes; })
      .def_property_readonly("tpc_mask",
                             [](const LaunchObject& l) {
                               const auto* launch = l.view.operation
                                                        ? std::get_if<corun::Launch>(&l.view.operation->what)
                                                        : nullptr;
                               return launch ? launch->tpc_mask : std::nullopt;
                             })
      .def_property_readonly("bytes", [](const LaunchObject& l) { return bytes_of(l.view); })
      .def_property_readonly("solo_time_ps", [](const LaunchObject& l) { return l.view.solo_time; })
      .def_property_readonly("state", [](const LaunchObject& l) { return l.view.state; })
      .def_property_readonly("waits_for", [](const LaunchObject& l) { return l.view.waits_for; })
      .def_property_readonly("ready_at_ps", [](const LaunchObject& l) { return l.view.ready_at; })
      .def_property_readonly("submitted_at_ps", [](const LaunchObject& l) { return l.view.submitted_at; })
      .def_property_readonly("ctas", [](const LaunchObject& l) { return l.view.ctas; })
      .def_property_readonly("blocks_done", [](const LaunchObject& l) { return l.view.blocks_done; })
      .def_property_readonly("reported_at_ps", [](const LaunchObject& l) { return l.view.reported_at; });
  as_record(view, {"id", "client", "kernel_id", "state"});
  // A decision names a launch by its id or by a view of it.
  id.def(py::init([](const LaunchObject& l) { return l.view.id; }), py::arg("launch"));
  py::implicitly_convertible<LaunchObject, LaunchId>();
}

template <class T>
py::class_<T> notice_of_launch(py::module_& m, const char* name, const char* about) {
  py::class_<T> notice(m, name, about);
  notice.def_readonly("launch", &T::launch);
  return notice;
}

template <class T>
void notice_of_request(py::module_& m, const char* name, const char* about) {
  py::class_<T> notice(m, name, about);
  notice.def_readonly("client", &T::client).def_readonly("request", &T::request);
  as_record(notice, {"client", "request"});
}

void bind_notices(py::module_& m) {
  notice_of_request<RequestArrived>(m, "RequestArrived", "A client's request has come.");
  notice_of_request<RequestFinished>(m, "RequestFinished", "A client's request is done.");
  auto ready = notice_of_launch<LaunchReady>(m, "LaunchReady", "The host code has called it.");
  as_record(ready, {"launch"});
  auto last = notice_of_launch<LastBlockStarted>(m, "LastBlockStarted", "A new size has no effect any more.");
  as_record(last, {"launch"});
  auto finished = notice_of_launch<KernelFinished>(m, "KernelFinished", "Its last block has ended.");
  as_record(finished, {"launch"});
  auto copied = notice_of_launch<CopyFinished>(m, "CopyFinished", "A copy is done.");
  as_record(copied, {"launch"});
  auto preempted = notice_of_launch<Preempted>(m, "Preempted", "It is off the GPU and pending again.");
  preempted.def_readonly("blocks_done", &Preempted::blocks_done);
  as_record(preempted, {"launch", "blocks_done"});
  auto progress = notice_of_launch<ProgressReported>(m, "ProgressReported", "The answer to a Query.");
  progress.def_readonly("blocks_done", &ProgressReported::blocks_done)
      .def_readonly("as_of_ps", &ProgressReported::as_of);
  as_record(progress, {"launch", "blocks_done", "as_of_ps"});
  py::class_<AllocationReady> allocation(m, "AllocationReady", "The host code has called an allocation.");
  allocation.def_readonly("allocation", &AllocationReady::allocation);
  as_record(allocation, {"allocation"});
  py::class_<BufferMoved> moved(m, "BufferMoved", "A Checkpoint or Restore is complete.");
  moved.def_readonly("buffer", &BufferMoved::buffer);
  as_record(moved, {"buffer"});
  py::class_<BufferWanted> wanted(m, "BufferWanted", "A copy waits for a buffer that is not on the device.");
  wanted.def_readonly("buffer", &BufferWanted::buffer);
  as_record(wanted, {"buffer"});
  py::class_<ClientLost> lost(m, "ClientLost", "Its process has failed or was killed.");
  lost.def_readonly("client", &ClientLost::client);
  as_record(lost, {"client"});
  py::class_<WokeUp> woke(m, "WokeUp", "The time asked for by WakeAt has come.");
  as_record(woke, {});
}

}  // namespace

void bind_snapshot(py::module_& m) {
  bind_launches(m);
  bind_notices(m);

  py::class_<ClientObject> client(m, "ClientView", "A client as it was when the snapshot was taken.");
  client.def_property_readonly("id", [](const ClientObject& c) { return c.view.id; })
      .def_property_readonly("client", [](const ClientObject& c) { return part_of(c.owner, c.view.client); })
      .def_property_readonly("requests_waiting",
                             [](const ClientObject& c) { return c.view.requests_waiting; })
      .def_property_readonly("busy", [](const ClientObject& c) { return c.view.busy; });
  as_record(client, {"id", "client", "requests_waiting", "busy"});

  bind_enum<BufferView::Place>(m, "Place", {"asked", "device", "to_host", "host", "to_device"});
  py::class_<BufferView> buffer(m, "BufferView", "An allocation in device memory, from grant to release.");
  buffer.def_readonly("id", &BufferView::id)
      .def_readonly("client", &BufferView::client)
      .def_readonly("bytes", &BufferView::bytes)
      .def_readonly("place", &BufferView::place)
      .def_readonly("free", &BufferView::free)
      .def_readonly("in_use", &BufferView::in_use)
      .def_readonly("copies_wait", &BufferView::copies_wait)
      .def_readonly("uses", &BufferView::uses)
      .def_readonly("last_used_ps", &BufferView::last_used);
  as_record(buffer, {"id", "client", "bytes", "place", "free", "in_use"});

  py::class_<ProfilePoint> point(m, "ProfilePoint", "Solo time as a persistent kernel of `ctas` CTAs.");
  point.def_readonly("ctas", &ProfilePoint::ctas)
      .def_readonly("time_ps", &ProfilePoint::time)
      .def_readonly("sms", &ProfilePoint::sms)
      .def_readonly("ctas_per_sm", &ProfilePoint::ctas_per_sm);
  as_record(point, {"ctas", "time_ps", "sms", "ctas_per_sm"});

  py::class_<SnapshotObject>(m, "Snapshot",
                             "What a host can see at one instant; readable during decide() only.")
      .def_property_readonly("now_ps", [](const SnapshotObject& s) { return s.get().now; })
      .def_property_readonly("notices",
                             [](const SnapshotObject& s) {
                               return std::vector<Notice>(s.get().notices.begin(), s.get().notices.end());
                             })
      .def_property_readonly("clients",
                             [](const SnapshotObject& s) {
                               py::list list;
                               for (const ClientView& c : s.get().clients)
                                 list.append(ClientObject{c, s.lease->owner});
                               return list;
                             })
      .def_property_readonly("pending", [](const SnapshotObject& s) { return launches(s, s.get().pending); })
      .def_property_readonly("running", [](const SnapshotObject& s) { return launches(s, s.get().running); })
      .def_property_readonly("allocating",
                             [](const SnapshotObject& s) { return launches(s, s.get().allocating); })
      .def_property_readonly("buffers",
                             [](const SnapshotObject& s) {
                               return std::vector<BufferView>(s.get().buffers.begin(), s.get().buffers.end());
                             })
      .def_property_readonly("memory_used_bytes", [](const SnapshotObject& s) { return s.get().memory_used; })
      .def(
          "launch",
          [](const SnapshotObject& s, LaunchId id) {
            const auto all = s.get().launches;
            if (id.slot >= all.size() || all[id.slot].id != id)
              throw py::key_error("no launch " + std::to_string(id.serial) + ": it has ended");
            return LaunchObject{all[id.slot], s.lease->owner};
          },
          py::arg("id"))
      .def(
          "profile",
          [](const SnapshotObject& s, KernelId kernel) {
            const auto all = s.get().profiles;
            if (kernel.value >= all.size())
              throw py::index_error("no kernel " + std::to_string(kernel.value));
            return all[kernel.value];
          },
          py::arg("kernel_id"));
}

}  // namespace corun::python
