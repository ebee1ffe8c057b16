// A forecast that takes its time: what was asked is looked at beside the decisions, and heard when that is done.
#pragma once

#include "policies/api/forecast.h"

namespace corun::live {

class ServiceForecast : public Forecast {
 public:
  /// It has looked, and nobody has heard of it.
  virtual bool ready() const = 0;
  /// Then answer() is there.  Nothing was asked: nothing.
  virtual void hear() = 0;
  /// What it was asked about is going away.
  virtual void forget() = 0;
};

}  // namespace corun::live
