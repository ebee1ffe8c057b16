// How values of the C++ interfaces look in Python: an id is its index, a time a number of picoseconds
// (exact), a TPC mask a set of TPC numbers.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <vector>

#include "policies/api/policy.h"
#include "policies/api/topology.h"
#include "traces/model/ids.h"
#include "traces/model/time.h"
#include "traces/model/tpc_mask.h"

namespace corun::python {

/// Members of the Python enumeration, by value.  Never destroyed: the interpreter may end first.
template <class E>
std::vector<pybind11::object>& members() {
  static auto* all = new std::vector<pybind11::object>;
  return *all;
}

}  // namespace corun::python

namespace pybind11::detail {

/// Filled by bind_enum().
template <class E>
struct enumeration_caster {
  PYBIND11_TYPE_CASTER(E, const_name("enum"));
  bool load(handle source, bool) {
    const auto& all = corun::python::members<E>();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (source.is(all[i])) return value = static_cast<E>(i), true;
    return false;
  }
  static handle cast(E e, return_value_policy, handle) {
    return corun::python::members<E>()[static_cast<std::size_t>(e)].inc_ref();
  }
};
template <>
struct type_caster<corun::Capability> : enumeration_caster<corun::Capability> {};
template <>
struct type_caster<corun::Contexts> : enumeration_caster<corun::Contexts> {};
template <>
struct type_caster<corun::ServiceClass> : enumeration_caster<corun::ServiceClass> {};
template <>
struct type_caster<corun::LaunchState> : enumeration_caster<corun::LaunchState> {};
template <>
struct type_caster<corun::BufferView::Place> : enumeration_caster<corun::BufferView::Place> {};
template <>
struct type_caster<corun::decide::Stop> : enumeration_caster<corun::decide::Stop> {};

template <class Tag>
struct type_caster<corun::Id<Tag>> {
  PYBIND11_TYPE_CASTER(corun::Id<Tag>, const_name("int"));
  bool load(handle source, bool convert) {
    make_caster<std::uint32_t> number;
    if (!number.load(source, convert)) return false;
    value.value = cast_op<std::uint32_t>(number);
    return true;
  }
  static handle cast(corun::Id<Tag> id, return_value_policy, handle) {
    return PyLong_FromUnsignedLong(id.value);
  }
};

template <>
struct type_caster<corun::Time> {
  PYBIND11_TYPE_CASTER(corun::Time, const_name("int"));
  bool load(handle source, bool convert) {
    make_caster<std::int64_t> number;
    if (!number.load(source, convert)) return false;
    value = corun::Time{cast_op<std::int64_t>(number)};
    return true;
  }
  static handle cast(corun::Time time, return_value_policy, handle) {
    return PyLong_FromLongLong(time.count());
  }
};

template <>
struct type_caster<corun::TpcMask> {
  PYBIND11_TYPE_CASTER(corun::TpcMask, const_name("frozenset[int]"));
  bool load(handle source, bool) {
    if (!isinstance<iterable>(source) || isinstance<str>(source)) return false;
    value = corun::TpcMask{};
    for (handle tpc : reinterpret_borrow<iterable>(source)) {
      make_caster<std::int64_t> integer;
      if (!integer.load(tpc, false)) return false;  // a TypeError that names the argument
      const auto number = cast_op<std::int64_t>(integer);
      if (number < 0 || number >= corun::kMaxTpcs)
        throw value_error("a TPC has a number from 0 to " + std::to_string(corun::kMaxTpcs - 1) + ", not " +
                          std::to_string(number));
      value.enable(corun::TpcId{static_cast<std::uint32_t>(number)});
    }
    return true;
  }
  static handle cast(const corun::TpcMask& mask, return_value_policy, handle) {
    set tpcs;
    for (std::uint32_t tpc = 0; tpc < corun::kMaxTpcs; ++tpc)
      if (mask.allows(corun::TpcId{tpc})) tpcs.add(tpc);
    return PyFrozenSet_New(tpcs.ptr());
  }
};

template <>
struct type_caster<corun::CapabilitySet> {
  PYBIND11_TYPE_CASTER(corun::CapabilitySet, const_name("frozenset[Capability]"));
  bool load(handle source, bool) {
    if (!isinstance<iterable>(source)) return false;
    value = corun::CapabilitySet{};
    for (handle capability : reinterpret_borrow<iterable>(source)) {
      make_caster<corun::Capability> one;
      if (!one.load(capability, true)) return false;
      value.add(cast_op<corun::Capability>(one));
    }
    return true;
  }
  static handle cast(corun::CapabilitySet capabilities, return_value_policy, handle) {
    set all;
    for (std::uint32_t i = 0; i < corun::kCapabilities; ++i)
      if (const auto c = static_cast<corun::Capability>(i); capabilities.has(c)) all.add(c);
    return PyFrozenSet_New(all.ptr());
  }
};

}  // namespace pybind11::detail
