// A forecast that takes its time: what was asked is looked at beside the decisions, and heard when that is done.
#pragma once

#include "policies/api/forecast.h"

namespace corun::live {

class ServiceForecast : public Forecast {
 public:
  /// An answer is there that hear() has not taken.
  virtual bool ready() const = 0;
  /// Takes the answer, which answer() then has; without a question there is none.
  virtual void hear() = 0;
  /// Drops question and answer: the launches that they name are going away.
  virtual void forget() = 0;
};

}  // namespace corun::live
