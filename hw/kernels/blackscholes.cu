// European options by the closed formula of Black and Scholes, two a thread.
static __device__ __forceinline__ float below(float d) {  // the normal distribution's, by a polynomial
  const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  const float tail = 0.39894228040143267794f * __expf(-0.5f * d * d) *
                     (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1.0f - tail : tail;
}
static __device__ __forceinline__ void price(float& call, float& put, float s, float x, float t, float r, float v) {
  const float root = sqrtf(t), d1 = (__logf(s / x) + (r + 0.5f * v * v) * t) / (v * root), d2 = d1 - v * root;
  const float n1 = below(d1), n2 = below(d2), discounted = x * __expf(-r * t);
  call = s * n1 - discounted * n2;
  put = discounted * (1.0f - n2) - s * (1.0f - n1);
}
extern "C" __global__ void __launch_bounds__(128)
blackscholes(float2* __restrict__ call, float2* __restrict__ put, const float2* __restrict__ stock,
             const float2* __restrict__ strike, const float2* __restrict__ years, float rate, float volatility,
             unsigned pairs) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const float2 s = stock[i], x = strike[i], t = years[i];
  float2 c, p;
  price(c.x, p.x, s.x, x.x, t.x, rate, volatility);
  price(c.y, p.y, s.y, x.y, t.y, rate, volatility);
  call[i] = c;
  put[i] = p;
}
